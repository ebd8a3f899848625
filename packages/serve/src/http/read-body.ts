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
  throw new ApiError(400, `${names === '' ? 'The body' : names}: ${issue?.message ?? 'is wrong'}`, {
    param: names,
  });
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
