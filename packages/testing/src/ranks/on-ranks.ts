import { performance } from 'node:perf_hooks';
import { setTimeout as after } from 'node:timers/promises';
import { createGroup, createLoopbackTransports, createMesh } from '@shardwise/collectives';
import { setRank } from '@shardwise/core';
import { checkOptions, option, type OptionRules } from '@shardwise/core/base';
import { currentSession } from '@shardwise/core/extend';
import {
  type Backend,
  type Mesh,
  type MeshAxis,
  type ProcessGroup,
  ShardwiseError,
} from '@shardwise/core/spec';
import { interpreter } from '../interpreter/interpreter.ts';
import { RankFailure, reportOf } from './rank-failure.ts';
import { inOwnRankState } from './rank-states.ts';

/** Options of `onRanks`. */
export interface OnRanksOptions {
  /** Makes the device of a rank. Default: the interpreter, of which the host sees the memory, as that of a CPU. */
  readonly createDevice?: (rank: number) => Backend | Promise<Backend>;
  /** The axes of the mesh. Default: one axis `dp` of all ranks. */
  readonly axes?: readonly MeshAxis[];
  /** When the thread has had nothing to do for so many milliseconds, its ranks count as hanging. Default: 10,000. */
  readonly idleTimeoutMs?: number;
}

/** What the body of a rank is given. */
export interface RankInThread {
  readonly rank: number;
  readonly size: number;
  /** The group of all ranks. */
  readonly group: ProcessGroup;
  readonly mesh: Mesh;
  readonly device: Backend;
}

const sizeRules = { size: option.required(option.integer(1)) };
const onRanksRules: OptionRules<OnRanksOptions> = {
  createDevice: option.callback(),
  axes: option.listOf(option.object<MeshAxis>('an axis of a mesh')),
  idleTimeoutMs: option.positive,
};

const DEFAULT_IDLE_TIMEOUT_MS = 10_000;

/** A thread whose ranks all wait is busy for less than this part of the time, with timers and what runs beside them. */
const IDLE_UTILIZATION = 0.05;

/** The milliseconds that other ranks get to end after one has failed. A collective ends at once. */
const ENDING_MS = 1_000;

/**
 * Runs `body` as each of `size` ranks, all in this thread, and returns what the ranks returned, in rank order. Each rank
 * has a state, a device and random streams of its own, as if it had a thread of its own, and is set as its body begins.
 * Their groups are connected in memory.
 *
 * The ranks take turns at each `await`. What is not a rank's state is shared: variables of modules, `process` and the
 * console. `body` must not change them.
 *
 * If a rank throws, collectives of the other ranks fail, and the call rejects with the RankFailure of the first rank
 * that threw. Its `cause` is the error. A rank that has ended takes part in no more collectives, so a rank that waits
 * for it fails, too. Ranks that wait for each other fail when the thread has been idle for `idleTimeoutMs`. Throws
 * ConfigError for a size that is no whole number from 1, and for options that do not exist.
 */
export async function onRanks<T>(
  size: number,
  body: (rank: RankInThread) => T | Promise<T>,
  options: OnRanksOptions = {},
): Promise<readonly T[]> {
  checkOptions('onRanks', { size }, sizeRules);
  checkOptions('onRanks', options, onRanksRules);
  const { idleTimeoutMs = DEFAULT_IDLE_TIMEOUT_MS } = options;
  const groups = createLoopbackTransports(size).map((transport) => createGroup(transport));
  const failed = Promise.withResolvers<Error>();
  const running = new Set(groups.keys());
  /** The ranks that have ended, and so take part in no more collectives. */
  const ended = new Set<number>();
  const ranks = groups.map(async (group, rank) => {
    try {
      const result = await inOwnRankState(() => runRank(group, body, options, ended));
      ended.add(rank);
      group.close();
      return result;
    } catch (error) {
      const failure = new RankFailure(rank, reportOf(error), { cause: error });
      failed.resolve(failure);
      group.close(error instanceof Error ? error : failure);
      throw failure;
    } finally {
      running.delete(rank);
    }
  });
  const settled = Promise.allSettled(ranks);
  const stop = new AbortController();
  const hanging = idle(idleTimeoutMs, stop.signal).then(() => {
    const late = [...running].join(', ');
    const failure = new Error(
      `ranks ${late} of ${size} wait for each other: nothing has happened for ${idleTimeoutMs} ms`,
    );
    for (const group of groups) group.close(failure);
    return failure;
  });
  try {
    const failure = await Promise.race([hanging, failed.promise, settled.then(() => null)]);
    if (failure === null) return await Promise.all(ranks);
    await Promise.race([settled, after(ENDING_MS, null, { signal: stop.signal })]);
    throw failure;
  } finally {
    stop.abort();
  }
}

/** Runs the body of one rank, and then the collectives that it has made and whose results it has not read. */
async function runRank<T>(
  group: ProcessGroup,
  body: (rank: RankInThread) => T | Promise<T>,
  { axes, createDevice = () => interpreter({ mappable: true }) }: OnRanksOptions,
  ended: ReadonlySet<number>,
): Promise<T> {
  const { rank, size } = group;
  const device = await createDevice(rank);
  const mesh = await createMesh(group, axes ?? [{ name: 'dp', size }]);
  setRank({ device, mesh });
  const result = await body({ rank, size, group, mesh, device });
  try {
    await currentSession().finish();
  } catch (error) {
    if (!isKnown(error, ended)) throw error;
  }
  return result;
}

/** Whether an error says that the group had been ended, by an error that `body` has seen and that was no rank's end. */
function isKnown(error: unknown, ended: ReadonlySet<number>): boolean {
  return (
    ShardwiseError.isInstance(error) &&
    error.code === 'COLLECTIVE_ABORTED' &&
    !ended.has(Number(error.fields['abortedBy']))
  );
}

/** Waits until this thread has had nothing to do for so long. However slow a busy machine is, work is never idle. */
async function idle(limitMs: number, signal: AbortSignal): Promise<void> {
  for (;;) {
    const before = performance.eventLoopUtilization();
    await after(limitMs, null, { signal });
    if (performance.eventLoopUtilization(before).utilization < IDLE_UTILIZATION) return;
  }
}
