import type { ArrayTree } from '../tensor/nd-array.ts';

/** The data that a worker of a data loader is started with. */
export interface WorkerTask {
  readonly module: string;
  readonly exportName: string;
  readonly arguments: readonly unknown[];
  readonly collateName: string | null;
  readonly length: number;
}

export interface BatchRequest {
  readonly id: number;
  readonly indices: readonly number[];
}

export type BatchReply<Batch extends ArrayTree> =
  | { readonly kind: 'batch'; readonly id: number; readonly batch: Batch }
  | { readonly kind: 'error'; readonly id: number; readonly error: ErrorReport };

/** The form in which an error of any class travels between threads. */
export interface ErrorReport {
  readonly name: string;
  readonly message: string;
  readonly stack: string;
}

export function reportOf(error: unknown): ErrorReport {
  if (!(error instanceof Error)) return { name: 'Error', message: String(error), stack: '' };
  return { name: error.name, message: error.message, stack: error.stack ?? '' };
}

/** The error that a report is of. */
export function causeOf({ name, message, stack }: ErrorReport): Error {
  const cause = new Error(message);
  cause.name = name;
  cause.stack = stack;
  return cause;
}
