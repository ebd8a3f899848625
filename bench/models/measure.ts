import { mkdtemp, rm } from 'node:fs/promises';
import { availableParallelism, tmpdir } from 'node:os';
import { join } from 'node:path';
import type { BenchResult } from '../bench.ts';
import { round, type Rounds, summarize } from '../summary.ts';
import { type Contestant, type ContestantTask, startOurs, startTheirs } from './contestants.ts';
import { type BenchModel, writeFolder } from './folders.ts';
import type { ModelAnswer, ModelRequest } from './rank-task.ts';

/** What the parts of the benchmark are told. */
export interface PartOptions {
  readonly rounds: number;
}

/** A part of the benchmark. */
export interface Part {
  readonly about: string;
  run(options: PartOptions): Promise<BenchResult>;
}

/** How many ranks compute, with how many threads each. All cores are busy in each way. */
export const divisions = [
  { ranks: 1, threads: availableParallelism() },
  { ranks: 2, threads: 1 },
] as const;

/** What one contestant needed. */
export interface Measured {
  readonly times: Rounds;
  /** The median time of all threads on cores. */
  readonly cpuMs: Rounds;
  /** The answer of the warm-up. */
  readonly first: ModelAnswer;
}

/** What both needed. Theirs is a reason if they could not be measured. */
export interface Compared {
  readonly ours: Measured;
  readonly theirs: Measured | { readonly reason: string };
}

/** Makes a folder in which `use` writes models. It is removed at the end. */
export async function inScratch<T>(use: (folder: string) => Promise<T>): Promise<T> {
  const folder = await mkdtemp(join(tmpdir(), 'shardwise-bench-models-'));
  try {
    return await use(folder);
  } finally {
    await rm(folder, { recursive: true });
  }
}

/** Starts both contestants with the same weights, and lets them take turns for each of the requests. */
export async function compare(
  model: BenchModel,
  task: Omit<ContestantTask, 'folder'>,
  requests: readonly ModelRequest[],
  rounds: number,
): Promise<readonly Compared[]> {
  return inScratch(async (folder) => {
    await writeFolder(model, 'f32', folder);
    const [ours, theirs] = [
      await startOurs({ ...task, folder }),
      await startTheirs({ ...task, folder }),
    ];
    try {
      const compared: Compared[] = [];
      for (const request of requests) compared.push(await takeTurns(ours, theirs, request, rounds));
      return compared;
    } finally {
      await Promise.all([ours.close(), 'reason' in theirs ? undefined : theirs.close()]);
    }
  });
}

async function takeTurns(
  ours: Contestant,
  theirs: Contestant | { readonly reason: string },
  request: ModelRequest,
  rounds: number,
): Promise<Compared> {
  const answers: Record<'ours' | 'theirs', ModelAnswer[]> = { ours: [], theirs: [] };
  for (let index = 0; index <= rounds; index++) {
    answers.ours.push(await ours.round(request));
    if (!('reason' in theirs)) answers.theirs.push(await theirs.round(request));
  }
  return {
    ours: measured(answers.ours),
    theirs: 'reason' in theirs ? theirs : measured(answers.theirs),
  };
}

/** The first round is a warm-up. */
function measured([first, ...rounds]: readonly ModelAnswer[]): Measured {
  if (first === undefined) throw new RangeError('no rounds');
  const of = (key: 'ms' | 'cpuMs'): Rounds => summarize(rounds.map((each) => each[key]));
  return { times: of('ms'), cpuMs: of('cpuMs'), first };
}

/** The ratios of a comparison: how many times faster ours is. Null without a peer. */
export function ratiosOf({ ours, theirs }: Compared): Readonly<Record<string, number | null>> {
  if ('reason' in theirs) return { ratio: null, ratioOfBest: null, ratioOfCpuTime: null };
  return {
    ratio: round(theirs.times.medianMs / ours.times.medianMs, 3),
    ratioOfBest: round(theirs.times.minMs / ours.times.minMs, 3),
    ratioOfCpuTime: round(theirs.cpuMs.medianMs / ours.cpuMs.medianMs, 3),
  };
}
