import { requireRequest } from './request-schema.ts';
import type { AnyRequest } from './request.ts';
import { refusal } from './refusal.ts';

/** The answer to a push or a pull. */
export interface ServerAnswer {
  /** The step that the worker's next push belongs to. */
  readonly round: number;
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
  const request = parsed(head);
  requireRequest(request, malformed);
  return { request, arrays };
}

/** The answer to a worker that has joined. */
export interface Joined {
  readonly session: number;
  /** The number of the last push of this worker that counted. */
  readonly sequence: number;
  readonly round: number;
  readonly isInitialised: boolean;
}

/** Throws RefusedError for an invalid answer to a join. */
export function readJoined(parts: readonly Uint8Array[]): Joined {
  const { number, flag } = fieldsOf(parts);
  return {
    session: number('session'),
    sequence: number('sequence'),
    round: number('round'),
    isInitialised: flag('isInitialised'),
  };
}

/** Reads the answer to a push or a pull, with the values that it brings. Throws RefusedError for an invalid answer. */
export function readAnswer(parts: readonly Uint8Array[]): ServerAnswer & {
  readonly values: readonly Uint8Array[];
} {
  const { number, flag } = fieldsOf(parts);
  return {
    round: number('round'),
    version: number('version'),
    lead: number('lead'),
    staleness: number('staleness'),
    isLate: flag('isLate'),
    waitedMs: number('waitedMs'),
    values: parts.slice(1),
  };
}

function fieldsOf([head = new Uint8Array(0)]: readonly Uint8Array[]): {
  readonly number: (name: string) => number;
  readonly flag: (name: string) => boolean;
} {
  const fields = new Map(Object.entries(Object(parsed(head))));
  return {
    number: (name) => {
      const value = fields.get(name);
      if (typeof value === 'number') return value;
      throw malformed(`an answer without ${name}`);
    },
    flag: (name) => fields.get(name) === true,
  };
}

function parsed(head: Uint8Array): unknown {
  try {
    return JSON.parse(decoder.decode(head));
  } catch {
    throw malformed('a head that is no JSON');
  }
}

function malformed(found: string): Error {
  return refusal('malformed', 'a request', found, 'Send what this version of Shardwise sends');
}
