import { mkdir } from 'node:fs/promises';
import { join } from 'node:path';
import { keepGenericWasmWrappers } from '@shardwise/core/node';
import { type LaunchOptions, startsOf } from '../launch.ts';
import { RankProcess } from '../processes/rank-process.ts';
import type { MemberMessage } from '../ranks/member-message.ts';
import type { RankEnd, RankHandle } from '../ranks/rank-handle.ts';
import type { RankMessage } from '../../run-state/run-message.ts';
import { RankWorker } from '../threads/rank-worker.ts';

/** How a rank that others can lose is started, and who hears of it. */
export interface MemberStart {
  /** How many ranks were started before it in its place, in this generation. */
  readonly restarts: number;
  readonly onMessage: (message: RankMessage) => void;
  readonly onMember: (message: MemberMessage) => void;
  /** Called when the rank is about to be ended for this reason. */
  readonly onDoomed: (reason: string) => void;
  readonly onEnd: (end: RankEnd) => void;
}

/** Starts a rank, on this host or on another one. */
export type StartMember = (start: MemberStart) => RankHandle;

/** Returns what starts each rank of this host, by its number. */
export async function memberStarts(
  options: LaunchOptions,
): Promise<ReadonlyMap<number, StartMember>> {
  const directory = join(options.generation.runDirectory, 'logs');
  await mkdir(directory, { recursive: true });
  keepGenericWasmWrappers();
  const create = { threads: RankWorker, processes: RankProcess }[options.form];
  // Whoever starts a rank hears of its end.
  const ends = { onDoomed: () => undefined, onEnd: () => undefined };
  return new Map(
    startsOf(options, undefined, directory, ends).map((start) => [
      start.data.rank,
      ({ restarts, ...listeners }) => {
        const { environment } = start;
        const { TORCHELASTIC_RESTART_COUNT: before = '0' } = environment;
        const count = String(Number(before) + restarts);
        return new create({
          ...start,
          ...listeners,
          environment: { ...environment, TORCHELASTIC_RESTART_COUNT: count },
        });
      },
    ]),
  );
}
