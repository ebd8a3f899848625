import { check, option } from '@shardwise/core/extend';
import { checkRequest } from './check-request.ts';
import type { AnyRequest } from './request.ts';
import { checkReceived, refusal } from './refusal.ts';

/** The answer to a push or a pull. */
export interface ServerAnswer {
  /** The step that the worker's next push belongs to. */
  readonly step: number;
  /** The number of updates that the parameters have had. */
  readonly version: number;
  /** The number of steps that the worker is ahead of the slowest one. */
  readonly lead: number;
  /** The number of updates by other workers between the worker's last read and its push. */
  readonly staleness: number;
  /** Whether the push came too late for its step, and was dropped. */
  readonly isLate: boolean;
  /** The milliseconds that the answer waited for other workers. */
  readonly waitedMs: number;
}

const encoder = new TextEncoder();
const decoder = new TextDecoder();

/** The longest head of a message in bytes. */
const MAX_HEAD_BYTES = 16 << 20;

/** Puts a head, as JSON, before the arrays of a message. */
export function withHead(head: object, arrays: readonly Uint8Array[] = []): readonly Uint8Array[] {
  return [encoder.encode(JSON.stringify(head)), ...arrays];
}

/** Parses a request. Throws RefusedError for invalid ones. Nothing of it is evaluated. */
export function readRequest(parts: readonly Uint8Array[]): {
  readonly request: AnyRequest;
  readonly arrays: readonly Uint8Array[];
} {
  const [head, ...arrays] = parts;
  if (head === undefined || head.byteLength > MAX_HEAD_BYTES) {
    throw malformed(`a head of ${head?.byteLength ?? 0} bytes`);
  }
  return { request: checkRequest(parsed(head)), arrays };
}

/** The answer to a worker that has joined. */
export interface Joined {
  readonly session: number;
  /** The number of the last push of this worker that counted. */
  readonly sequence: number;
  readonly step: number;
  readonly isInitialised: boolean;
}

const { count } = option;
const joined = check.object<Joined>({
  session: count,
  sequence: count,
  step: count,
  isInitialised: option.flag,
});
const answered = check.object<ServerAnswer>({
  step: count,
  version: count,
  lead: option.number,
  staleness: option.number,
  isLate: option.flag,
  waitedMs: option.number,
});

/** Reads the answer to a join. Throws RefusedError for an invalid one. */
export function readJoined([head]: readonly Uint8Array[]): Joined {
  return checkReceived(joined, parsed(head), 'an answer to a join');
}

/** Reads the answer to a push or a pull, with the values that it brings. Throws RefusedError for an invalid one. */
export function readAnswer([head, ...values]: readonly Uint8Array[]): ServerAnswer & {
  readonly values: readonly Uint8Array[];
} {
  return { ...checkReceived(answered, parsed(head), 'an answer'), values };
}

function parsed(head: Uint8Array = new Uint8Array(0)): unknown {
  try {
    return JSON.parse(decoder.decode(head));
  } catch {
    throw malformed('a head that is no JSON');
  }
}

function malformed(found: string): Error {
  return refusal('malformed', {
    asked: 'a request',
    found,
    todo: 'Send what this version of Shardwise sends',
  });
}
