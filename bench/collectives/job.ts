import { z } from 'zod';

/**
 * `busFactor` is bus bandwidth over algorithm bandwidth, as in nccl-tests. `memory` is the work of the memory limit
 * that corresponds to the operation.
 */
export interface OperationFacts {
  readonly busFactor: (size: number) => number;
  readonly memory: 'reduceToAll' | 'reduceToOne' | 'copy' | 'meet';
}

/**
 * The operations that are measured. A size is that of the whole: n for all-reduce, broadcast, reduce and sendRecv, and
 * W*n for the others. In sendRecv each rank sends to the next one and receives from the previous one. All-gather and
 * reduce-scatter are in place: the short buffer is this rank's part of the long one.
 */
export const operations = {
  allReduce: { busFactor: (size) => (2 * (size - 1)) / size, memory: 'reduceToAll' },
  allGather: { busFactor: (size) => (size - 1) / size, memory: 'copy' },
  reduceScatter: { busFactor: (size) => (size - 1) / size, memory: 'reduceToOne' },
  allToAll: { busFactor: (size) => (size - 1) / size, memory: 'copy' },
  broadcast: { busFactor: () => 1, memory: 'copy' },
  reduce: { busFactor: () => 1, memory: 'reduceToOne' },
  sendRecv: { busFactor: () => 1, memory: 'copy' },
  barrier: { busFactor: () => 0, memory: 'meet' },
} as const satisfies Record<string, OperationFacts>;

export type OperationName = keyof typeof operations;

export const operationNames = Object.keys(operations).filter(
  (name): name is OperationName => name in operations,
);

/** One measurement of one contestant. */
export interface Job {
  readonly operation: OperationName;
  /** The size of the whole. It is 0 for a barrier. */
  readonly bytes: number;
  readonly iterations: number;
}

export const jobSchema: z.ZodType<Job> = z.object({
  operation: z.enum(operationNames),
  bytes: z.int().nonnegative(),
  iterations: z.int().positive(),
});

/** Ranks that all do a job when they are asked to, and are idle otherwise. */
export interface Contestant {
  readonly name: string;
  readonly version?: string;
  /**
   * Set for a contestant that is costly to start. It takes part in every n-th round, and may choose the number of
   * calls.
   */
  readonly roundsApart?: number;
  /**
   * Returns the seconds per iteration of the slowest rank. Returns undefined for an operation that the contestant does
   * not have.
   */
  run(job: Job): Promise<number | undefined>;
  close(): Promise<void>;
}

/** A contestant, or why it is absent. Some are not installed everywhere. */
export type ContestantOrReason =
  | { readonly contestant: Contestant }
  | { readonly name: string; readonly reason: string };
