import { ShardwiseError } from '@shardwise/core/extend';
import { z } from 'zod';

/** An error in the form in which a message carries it. A message does not keep the class of an error, but its name. */
export interface ErrorData {
  readonly name: string;
  readonly message: string;
  readonly stack: string;
  /** The code of a ShardwiseError or of one of Node's errors. */
  readonly code?: string | undefined;
  /** The fields of a ShardwiseError. */
  readonly fields?: Readonly<Record<string, unknown>> | undefined;
  readonly cause?: ErrorData | undefined;
}

const MAX_CAUSES = 5;
/** The message that a process sends as it ends must fit into a pipe's buffer, so texts are cut to this length. */
const MAX_CHARACTERS = 4096;

const text = z.string().max(MAX_CHARACTERS);

const errorSchema: z.ZodType<ErrorData> = z.object({
  name: text,
  message: text,
  stack: text,
  code: text.optional(),
  fields: z.record(z.string(), z.unknown()).optional(),
  cause: z.lazy(() => errorSchema).optional(),
});

/** Encodes an error. If something else was thrown, it is encoded as a text. */
export function encodeError(thrown: unknown, depth = 0): ErrorData | string {
  if (!(thrown instanceof Error)) return cut(String(thrown));
  const cause = depth < MAX_CAUSES && thrown.cause !== undefined ? thrown.cause : undefined;
  const encoded = cause === undefined ? undefined : encodeError(cause, depth + 1);
  const code = 'code' in thrown && typeof thrown.code === 'string' ? cut(thrown.code) : undefined;
  const fields = ShardwiseError.isInstance(thrown) ? plainFields(thrown.fields) : undefined;
  return {
    name: cut(thrown.name),
    message: cut(thrown.message),
    stack: cut(thrown.stack ?? ''),
    code,
    fields,
    cause: typeof encoded === 'string' ? { name: 'Error', message: encoded, stack: '' } : encoded,
  };
}

/** Decodes what a rank has thrown. Returns undefined if the data is not something that a rank sends. */
export function decodeError(data: unknown): unknown {
  if (typeof data === 'string') return cut(data);
  const parsed = errorSchema.safeParse(data);
  return parsed.success ? toError(parsed.data) : undefined;
}

function toError({ name, message, stack, code, fields, cause }: ErrorData): Error {
  const error = new Error(message, cause === undefined ? {} : { cause: toError(cause) });
  error.name = name;
  error.stack = stack;
  if (code !== undefined) Object.assign(error, { code });
  return fields === undefined ? error : Object.assign(error, { fields, isShardwiseError: true });
}

/**
 * Keeps only the fields that are numbers, texts, booleans or lists of these. Other fields mean something only in their
 * own process.
 */
function plainFields(fields: Readonly<Record<string, unknown>>): Record<string, unknown> {
  const isPlain = (value: unknown): boolean =>
    ['number', 'string', 'boolean'].includes(typeof value) ||
    (Array.isArray(value) && value.every(isPlain));
  return Object.fromEntries(Object.entries(fields).filter(([, value]) => isPlain(value)));
}

function cut(value: string): string {
  return value.slice(0, MAX_CHARACTERS);
}
