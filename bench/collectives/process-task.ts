import type { ShmWorld } from '@shardwise/collectives/node';
import { z } from 'zod';

/** The variables of a process: the ProcessTask as JSON, and its rank. mpirun tells the rank in its own way. */
export const TASK_VARIABLE = 'SHARDWISE_BENCH_TASK';
export const RANK_VARIABLE = 'SHARDWISE_BENCH_RANK';

/** The kind of the processes of a contestant. `stream` is a ring of plain sockets. */
export type RankTask =
  | { readonly kind: 'shm'; readonly world: ShmWorld }
  | { readonly kind: 'mpi' }
  | {
      readonly kind: 'tcp' | 'stream';
      readonly size: number;
      readonly port: number;
      readonly secret: string;
    };

export interface ProcessTask {
  /** The path of the socket from which jobs come. */
  readonly controlPath: string;
  readonly task: RankTask;
}

const world: z.ZodType<ShmWorld> = z.strictObject({
  id: z.string(),
  size: z.int(),
  arenaBytes: z.int(),
  pid: z.int(),
  startTicks: z.int(),
  fd: z.int(),
});

export const processTaskSchema: z.ZodType<ProcessTask> = z.object({
  controlPath: z.string(),
  task: z.discriminatedUnion('kind', [
    z.object({ kind: z.literal('shm'), world }),
    z.object({ kind: z.literal('mpi') }),
    z.object({
      kind: z.enum(['tcp', 'stream']),
      size: z.int(),
      port: z.int(),
      secret: z.string(),
    }),
  ]),
});
