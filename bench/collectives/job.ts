import { z } from 'zod';

/** `busFactor`: bus over algorithm bandwidth, as in nccl-tests; `memory`: what the limit does in place of it. */
export interface OperationFacts {
  readonly busFactor: (size: number) => number;
  readonly memory: 'reduceToAll' | 'reduceToOne' | 'copy' | 'meet';
}

/**
 * What is measured. A size is that of the whole: n of all-reduce, broadcast, reduce and sendRecv,
 * W*n of the others. In sendRecv each rank sends to the next one and receives from the one before.
 * All-gather and reduce-scatter are in place: the short buffer is this rank's part of the long one.
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
  /** 0 for a barrier. */
  readonly bytes: number;
  readonly iterations: number;
}

export const jobSchema: z.ZodType<Job> = z.object({
  operation: z.enum(operationNames),
  bytes: z.int().nonnegative(),
  iterations: z.int().positive(),
});

/** Ranks that do the same job when they are told to, and are idle otherwise. */
export interface Contestant {
  readonly name: string;
  readonly version?: string;
  /** Of one that is costly to start: it takes part in every n-th round, with as many calls as it likes. */
  readonly roundsApart?: number;
  /** Seconds per iteration, of the slowest rank; undefined for an operation that it does not have. */
  run(job: Job): Promise<number | undefined>;
  close(): Promise<void>;
}

/** Some are not installed everywhere. */
export type ContestantOrReason =
  | { readonly contestant: Contestant }
  | { readonly name: string; readonly reason: string };
