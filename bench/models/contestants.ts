import { closeShmWorld, createShmWorld } from '@shardwise/collectives/node';
import { startLineProcess, type LineProcess } from '../line-process.ts';
import { startPython } from '../peer.ts';
import { answerSchema, type ModelAnswer, type ModelRequest, type RankTask } from './rank-task.ts';

/** One or more processes that train and generate when they are told to. */
export interface Contestant {
  round(request: ModelRequest): Promise<ModelAnswer>;
  close(): Promise<void>;
}

/** What contestants work on. */
export type ContestantTask = Omit<RankTask, 'rank' | 'world'>;

const script = new URL('./rank.ts', import.meta.url).pathname;

/** Starts our ranks: a process for each, which share memory if there are several. */
export async function startOurs(task: ContestantTask): Promise<Contestant> {
  const { ranks } = task;
  const world = ranks > 1 ? createShmWorld({ size: ranks }) : null;
  const processes = Array.from({ length: ranks }, (_, rank) => {
    const given: RankTask = { ...task, rank, world };
    const args = ['--conditions=@shardwise/source', script, JSON.stringify(given)];
    return startLineProcess(`rank ${rank}`, process.execPath, args, process.env);
  });
  const close = async (): Promise<void> => {
    await Promise.all(processes.map((each) => each.close()));
    if (world !== null) closeShmWorld(world);
  };
  await Promise.all(processes.map((each) => each.next()));
  return {
    round: async (request) =>
      slowest(await Promise.all(processes.map((each) => ask(each, request)))),
    close,
  };
}

/** Starts Python's transformers. */
export async function startTheirs({
  folder,
  ranks,
  threads,
  rows,
  length,
}: ContestantTask): Promise<Contestant | { readonly reason: string }> {
  const args = [folder, ...[ranks, threads, rows, length].map(String)];
  const started = startPython('transformers_models.py', args);
  if ('reason' in started) return started;
  await started.process.next();
  return {
    round: (request) => ask(started.process, request),
    close: () => started.process.close(),
  };
}

async function ask(process: LineProcess, request: ModelRequest): Promise<ModelAnswer> {
  return answerSchema.parse(await process.ask(request));
}

/** A step takes as long as on the slowest rank. The losses are those of the first rank, as the peer's. */
function slowest(answers: readonly ModelAnswer[]): ModelAnswer {
  const [first] = answers;
  if (first === undefined) throw new RangeError('no rank');
  return {
    ...first,
    ms: first.ms.map((_, step) => Math.max(...answers.map(({ ms }) => ms[step] ?? 0))),
  };
}
