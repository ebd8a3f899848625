import type { Consistency } from 'shardwise/browser';

/** What the page asks its workers to train, over a parameter server. */
export interface ServerTask {
  readonly consistency: Consistency;
  /** How much longer worker 0 takes for each step. */
  readonly delayMs: number;
}

/** What a worker has seen of its latest step, and of all. */
export interface ServerLook {
  /** How many steps it is ahead of the slowest worker. */
  readonly lead: number;
  /** How many updates of others came between what it had read and its gradient. */
  readonly staleness: number;
  readonly worstStaleness: number;
  /** From its beginning: waiting for other workers. */
  readonly waitedMs: number;
  /** Steps whose gradient came too late, and was dropped. */
  readonly late: number;
}

/** The page gives each worker and the server an end of a port between them. */
export interface PortMessage {
  readonly requestPort: MessagePort;
}

export function isPortMessage(data: unknown): data is PortMessage {
  return typeof data === 'object' && data !== null && 'requestPort' in data;
}

/** A request and its answer have the same number. */
export type RequestOnPort = { readonly number: number; readonly parts: readonly Uint8Array[] };
export type AnswerOnPort =
  | { readonly number: number; readonly parts: readonly Uint8Array[] }
  | { readonly number: number; readonly refusal: string; readonly text: string };
