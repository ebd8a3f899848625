import { cpu } from '@shardwise/backend-cpu';
import { joinThreadsWorld, limitCalls, type ThreadsWorld } from '@shardwise/collectives';
import { interpreter, type RankContext } from '@shardwise/testing';
import { mutated, randomProgram } from './random-program.ts';
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

/** Runs each program twice: with every value read where it is made, and with the reads of the program. */
export async function main({
  rank,
  size,
  world,
  data: { from, count, device },
}: RankContext<ThreadsWorld, ProgramsTask>): Promise<readonly Outcome[]> {
  const group = joinThreadsWorld(world, rank);
  const region = world.regions[rank];
  if (region === undefined) throw new RangeError('no region');
  const runner = new ProgramRunner(
    group,
    device === 'cpu' ? await cpu({ memory: world.memory, ...region }) : interpreter(),
  );
  const outcomes: Outcome[] = [];
  for (let seed = from; seed < from + count; seed++) {
    const program = randomProgram(seed, size);
    try {
      const expected = await runner.run(program, 'all');
      const found = await runner.run(program, 'some');
      outcomes.push({ seed, ...compared(expected, found) });
    } catch (error) {
      throw new Error(`program ${seed} of ${size} ranks: ${String(error)}`, { cause: error });
    }
  }
  return outcomes;
}

/** Runs a program of which one rank has another version. Returns the error of this rank, or null if it had none. */
export async function runMutated({
  rank,
  size,
  world,
  data: seed,
}: RankContext<ThreadsWorld, number>): Promise<string | null> {
  const group = joinThreadsWorld(world, rank);
  // Where one rank is in a stage of a pipeline and the other one in a collective, only the time limit tells.
  limitCalls(group, 3000);
  const runner = new ProgramRunner(group, interpreter());
  const program = randomProgram(seed, size);
  try {
    await runner.run(rank === 1 ? (mutated(program) ?? program) : program, 'some');
    group.close();
    return null;
  } catch (error) {
    group.close(error instanceof Error ? error : new Error(String(error)));
    return String(error);
  }
}

function compared(expected: Found, found: Found): Omit<Outcome, 'seed'> {
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
    if (JSON.stringify(elements) !== JSON.stringify(wanted)) {
      differs ??= `value ${value} is ${elements.join(', ')}, and not ${wanted.join(', ')}`;
    }
  }
  return { read, refused, differs };
}
