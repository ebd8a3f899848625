import type { dist } from 'shardwise';

export const WORKERS = 2;
/** The factor by which the slow worker is slower in a step's forward and backward pass. */
export const SLOWED = 4;

/** The contestants. In those named `slow-…` the second worker is slowed down. */
export const contestants = ['ddp', 'synchronous', 'slow-synchronous', 'slow-asynchronous'] as const;

export type Contestant = (typeof contestants)[number];

export interface ServerAddress {
  readonly host: string;
  readonly port: number;
  readonly secret: string;
}

export interface WorkerStart {
  readonly contestant: Contestant;
  readonly rank: number;
  readonly world: dist.transports.ThreadsWorld;
  readonly server: ServerAddress | undefined;
}

/** How long a worker trains: for a number of steps, or for a time. */
export type WorkerRequest = { readonly steps: number } | { readonly durationMs: number } | 'close';

export interface WorkerRound {
  readonly steps: number;
  readonly ms: number;
  readonly loss: number;
}
