import type { dist } from 'shardwise/browser';

/** What the page asks its workers to train with a parameter server. */
export interface ServerTask {
  readonly consistency: dist.servers.Consistency;
  /** By how many milliseconds each step of worker 0 is delayed. */
  readonly delayMs: number;
}

/** What a worker has observed in its latest step, and in all steps. */
export interface ServerLook {
  /** The number of steps by which the worker is ahead of the slowest one. */
  readonly lead: number;
  /** The number of updates of other workers between the worker's read and its gradient. */
  readonly staleness: number;
  readonly worstStaleness: number;
  /** The time since the worker began in which it waited for others. */
  readonly waitedMs: number;
  /** The number of steps whose gradient came too late and was dropped. */
  readonly late: number;
}

/** A message of the page that gives each worker and the server one end of a port between them. */
export interface PortMessage {
  readonly requestPort: MessagePort;
}

export function isPortMessage(data: unknown): data is PortMessage {
  return typeof data === 'object' && data !== null && 'requestPort' in data;
}

/** A request. The answer has the same number. */
export type RequestOnPort = { readonly number: number; readonly parts: readonly Uint8Array[] };
export type AnswerOnPort =
  | { readonly number: number; readonly parts: readonly Uint8Array[] }
  | { readonly number: number; readonly refusal: string; readonly text: string };
