import { createThreadsWorld, limitCalls } from '@shardwise/collectives';
import { setRank } from '@shardwise/core';
import type { Backend, ProcessGroup } from '@shardwise/core/spec';
import { onRanks } from '@shardwise/testing/node';
import { runRanks } from '../support/run-ranks.ts';
import { ProgramRunner } from './program-runner.ts';
import { mutated, randomProgram } from './random-program.ts';
import { type Outcome, outcomesOf, type ProgramsTask } from './run-programs.ts';

const url = new URL('./run-programs.ts', import.meta.url);
const timeoutMs = 300_000;

/** Runs programs on ranks that are all in this thread, on the interpreter. */
export async function outcomesInThread(
  ranks: number,
  task: Omit<ProgramsTask, 'device'>,
): Promise<readonly Outcome[]> {
  return (await onRanks(ranks, ({ group, device }) => outcomesOf(group, device, task))).flat();
}

/** Runs programs on ranks that are threads. */
export async function threadOutcomes(
  ranks: number,
  data: ProgramsTask,
): Promise<readonly Outcome[]> {
  const world = createThreadsWorld({ size: ranks, arenaBytes: 16 * 1024 * 1024 });
  const found = await runRanks(ranks, url, { world, data, timeoutMs });
  return (found as readonly (readonly Outcome[])[]).flat();
}

/** The programs in which some read gave another value. */
export function differencesOf(outcomes: readonly Outcome[]): readonly string[] {
  return outcomes.flatMap(({ seed, differs }) => (differs === null ? [] : [`${seed}: ${differs}`]));
}

/** A program of which rank 1 had another version, and what the ranks said of it. */
export interface MutatedOutcome {
  readonly seed: number;
  /** The number of the change. */
  readonly mutation: number;
  readonly errors: readonly (string | null)[];
}

/** Runs those of the programs with these seeds that can be changed so. */
export async function errorsOf(
  ranks: number,
  seeds: Iterable<number>,
  mutation: number,
): Promise<readonly MutatedOutcome[]> {
  const changed = [...seeds].filter(
    (seed) => mutated(randomProgram(seed, ranks), mutation) !== null,
  );
  const outcomes: MutatedOutcome[] = [];
  for (const seed of changed) {
    const errors = await onRanks(ranks, ({ rank, group, device }) =>
      errorOf(group, device, { seed, mutation: rank === 1 ? mutation : null }),
    );
    outcomes.push({ seed, mutation, errors });
  }
  return outcomes;
}

/** Runs a program, or this rank's other version of it. Returns its error, or null. */
async function errorOf(
  group: ProcessGroup,
  device: Backend,
  { seed, mutation }: { readonly seed: number; readonly mutation: number | null },
): Promise<string | null> {
  const program = randomProgram(seed, group.size);
  // Where one rank is in a stage of a pipeline and the other one in a collective, only the time limit tells.
  limitCalls(group, 1000);
  try {
    const own = mutation === null ? program : (mutated(program, mutation) ?? program);
    await new ProgramRunner(group, device).run(own, 'some');
    group.close();
    return null;
  } catch (error) {
    group.close(error instanceof Error ? error : new Error(String(error)));
    // What this rank has made and not read would fail at its end.
    setRank({ device });
    return String(error);
  }
}

/**
 * Whether a rank was told that ranks differ: as an error of a collective, or as that of tensors that were being updated
 * when the collective failed.
 */
export function isTold(errors: readonly (string | null)[]): boolean {
  const told = errors.join(' ');
  return (
    /Collective(Mismatch|Aborted|Timeout)Error/.test(told) ||
    /TensorStateError: .*(#\d+ on rank \d|lr is 0\.05 on rank 0 and 0\.051 on rank 1)/s.test(told)
  );
}
