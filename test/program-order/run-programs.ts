import { cpu } from '@shardwise/backend-cpu';
import { joinThreadsWorld, type ThreadsWorld } from '@shardwise/collectives';
import type { Backend, ProcessGroup } from '@shardwise/core/spec';
import { interpreter, type RankContext } from '@shardwise/testing';
import { randomProgram } from './random-program.ts';
import { type Found, ProgramRunner } from './program-runner.ts';

export interface ProgramsTask {
  readonly from: number;
  readonly count: number;
  readonly device: 'cpu' | 'interpreter';
}

export interface Outcome {
  readonly seed: number;
  readonly read: number;
  readonly refused: number;
  readonly differs: string | null;
}

/**
 * Runs each program twice: with every value read where it is made, and with the reads of the program. On a device that
 * rounds an expression by the program that it is part of, values may differ by their last bits.
 */
export async function outcomesOf(
  group: ProcessGroup,
  device: Backend,
  { from, count }: Pick<ProgramsTask, 'from' | 'count'>,
): Promise<readonly Outcome[]> {
  const runner = new ProgramRunner(group, device);
  const outcomes: Outcome[] = [];
  for (let seed = from; seed < from + count; seed++) {
    const program = randomProgram(seed, group.size);
    try {
      const expected = await runner.run(program, 'all');
      const found = await runner.run(program, 'some');
      outcomes.push({ seed, ...compared(expected, found, isExact(device)) });
    } catch (error) {
      throw new Error(`program ${seed} of ${group.size} ranks: ${String(error)}`, { cause: error });
    }
  }
  return outcomes;
}

/** The outcomes of ranks that are threads. */
export async function main({
  rank,
  world,
  data: { device, ...task },
}: RankContext<ThreadsWorld, ProgramsTask>): Promise<readonly Outcome[]> {
  const region = world.regions[rank];
  if (region === undefined) throw new RangeError('no region');
  return outcomesOf(
    joinThreadsWorld(world, rank),
    device === 'cpu' ? await cpu({ memory: world.memory, ...region }) : interpreter(),
    task,
  );
}

/** Whether a device computes in f64, so that the programs around an expression do not change its value. */
function isExact(device: Backend): boolean {
  return device.name === 'interpreter';
}

function areEqual(found: readonly number[], wanted: readonly number[], exact: boolean): boolean {
  if (exact) return JSON.stringify(found) === JSON.stringify(wanted);
  return (
    found.length === wanted.length &&
    found.every((value, index) => {
      const other = wanted[index] ?? Number.NaN;
      return Object.is(value, other) || Math.abs(value - other) <= 1e-4 * (1 + Math.abs(other));
    })
  );
}

function compared(expected: Found, found: Found, exact: boolean): Omit<Outcome, 'seed'> {
  const known = new Map<string, readonly number[]>();
  for (const [value, elements] of expected) {
    if (typeof elements !== 'string' && !known.has(value)) known.set(value, elements);
  }
  let [read, refused] = [0, 0];
  let differs: string | null = null;
  for (const [value, elements] of found) {
    const wanted = known.get(value);
    if (typeof elements === 'string' || wanted === undefined) {
      refused++;
      continue;
    }
    read++;
    if (!areEqual(elements, wanted, exact)) {
      differs ??= `value ${value} is ${elements.join(', ')}, and not ${wanted.join(', ')}`;
    }
  }
  return { read, refused, differs };
}
