import type { PageRank } from '@shardwise/collectives';
import type { RankMessage } from '../run-state/run-message.ts';
import type { CheckpointSource } from './checkpoint/checkpoint-source.ts';
import type { PageDevice } from './choose-device.ts';

/** A message of the page to a rank's worker. */
export type PageOrder =
  | {
      readonly kind: 'join';
      readonly pageRank: PageRank;
      readonly transport: { readonly kind: 'threads' | 'ports'; readonly reason: string };
      readonly device: PageDevice;
      /** The memory of a rank that shares no memory with other ranks. Undefined leaves it to the backend. */
      readonly arenaBytes: number | undefined;
      /** The memory of the StopFlag. Undefined if the page can't share memory. */
      readonly stop: SharedArrayBuffer | undefined;
      /** The data that the page gives to its ranks. */
      readonly data: unknown;
      readonly runDirectory: string;
      readonly resume: CheckpointSource | undefined;
    }
  | { readonly kind: 'stop' };

/** A message of a rank's worker to the page. */
export type PageAnswer =
  /** The worker waits for `join`. */
  | { readonly kind: 'ready' }
  | { readonly kind: 'run'; readonly message: RankMessage }
  /** A value that the script sends to the page. */
  | { readonly kind: 'value'; readonly value: unknown }
  | { readonly kind: 'failed'; readonly error: ErrorText }
  | { readonly kind: 'closed' };

/** An error of a rank, as it arrives in the page. */
export interface ErrorText {
  readonly name: string;
  /** It says what was asked, what was found, and what to do. */
  readonly message: string;
  readonly stack: string | undefined;
  /** Numbers and names, if the error is one of this library. */
  readonly fields: Readonly<Record<string, unknown>>;
}

/** How a rank ended. */
export interface RankEnd {
  readonly rank: number;
  /**
   * 'closed': its script has called close(). 'failed': the script threw an error. 'killed': `kill` ended it.
   * 'terminated': `terminate` ended it.
   */
  readonly status: 'closed' | 'failed' | 'killed' | 'terminated';
  /** The error of a rank that failed. */
  readonly error: ErrorText | undefined;
}

/** The field under which messages of this library lie, because scripts may post messages of their own. */
const key = 'shardwise';

export function wrap(message: PageOrder | PageAnswer): Readonly<Record<string, unknown>> {
  return { [key]: message };
}

/** Returns undefined for messages that do not come from this library. */
export function unwrapOrder(data: unknown): PageOrder | undefined {
  const message = messageOf(data);
  return isOneOf<PageOrder>(message, ['join', 'stop']) ? message : undefined;
}

export function unwrapAnswer(data: unknown): PageAnswer | undefined {
  const message = messageOf(data);
  const kinds = ['ready', 'run', 'value', 'failed', 'closed'] as const;
  return isOneOf<PageAnswer>(message, kinds) ? message : undefined;
}

function messageOf(data: unknown): unknown {
  return typeof data === 'object' && data !== null && key in data ? data[key] : undefined;
}

/** Checks only the kind of a message, because the page and its workers are one program. */
function isOneOf<M extends { readonly kind: string }>(
  message: unknown,
  kinds: readonly M['kind'][],
): message is M {
  if (typeof message !== 'object' || message === null || !('kind' in message)) return false;
  return kinds.some((kind) => kind === message.kind);
}

/** Converts an error, or any other value that was thrown, to data that can be posted. */
export function errorText(error: unknown): ErrorText {
  if (!(error instanceof Error)) {
    return { name: 'Error', message: String(error), stack: undefined, fields: {} };
  }
  const { name, message, stack } = error;
  return { name, message, stack, fields: fieldsOf(error) };
}

function fieldsOf(error: Error): ErrorText['fields'] {
  try {
    const fields: unknown = 'fields' in error ? structuredClone(error.fields) : {};
    return typeof fields === 'object' && fields !== null ? { ...fields } : {};
  } catch {
    return {};
  }
}
