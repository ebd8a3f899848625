import type { z } from 'zod';
import { ApiError } from './api-error.ts';

/** Reads a body of JSON. Throws ApiError 413 for a long one, and 400 for one that is not UTF-8, JSON, or what is asked. */
export async function readBody<Schema extends z.ZodType>(
  request: Request,
  maxBytes: number,
  schema: Schema,
): Promise<z.infer<Schema>> {
  const bytes = await readBytes(request, maxBytes);
  const result = schema.safeParse(parse(bytes));
  if (result.success) return result.data;
  const [issue] = result.error.issues;
  const param = issue?.path.join('.') ?? '';
  const names = issue?.code === 'unrecognized_keys' ? issue.keys.join(', ') : param;
  const message = issue === undefined ? 'is wrong' : messageOf(issue);
  throw new ApiError(400, `${names === '' ? 'The body' : names}: ${message}`, { param: names });
}

/** What is wrong. Of a value that may be of several types, it says why it is none of them. */
function messageOf(issue: z.core.$ZodIssue): string {
  if (issue.code !== 'invalid_union') return issue.message;
  const messages = issue.errors.flatMap((issues) => issues.slice(0, 1).map(messageOf));
  const distinct = new Set(messages.map((each) => each.replace(/^Invalid input: /, '')));
  return [...distinct].join('; or ') || issue.message;
}

/** Reads a body. Throws ApiError 413 for a long one. */
export async function readBytes(request: Request, maxBytes: number): Promise<Uint8Array> {
  const tooLarge = (): ApiError =>
    new ApiError(413, `The body is longer than ${maxBytes} bytes.`, { code: 'body_too_large' });
  if (Number(request.headers.get('content-length') ?? 0) > maxBytes) throw tooLarge();
  const parts: Uint8Array[] = [];
  let length = 0;
  for await (const part of request.body ?? []) {
    length += part.byteLength;
    if (length > maxBytes) throw tooLarge();
    parts.push(part);
  }
  const whole = new Uint8Array(length);
  let at = 0;
  for (const part of parts) {
    whole.set(part, at);
    at += part.byteLength;
  }
  return whole;
}

function parse(bytes: Uint8Array): unknown {
  try {
    return JSON.parse(new TextDecoder('utf-8', { fatal: true }).decode(bytes));
  } catch {
    throw new ApiError(400, 'The body is not JSON in UTF-8.', { code: 'invalid_json' });
  }
}
