import { type IncomingMessage, request as httpRequest } from 'node:http';

/** A request as it is passed on. Its body has been read, so that it can be sent again. */
export interface ForwardedRequest {
  readonly method: string;
  /** The path with the query. */
  readonly path: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: Uint8Array | null;
  /** Aborts when the client has gone. */
  readonly signal: AbortSignal;
}

/**
 * Sends a request to a server of this machine, and resolves when its answer begins. It has no time limit of its own: the
 * server has one. Rejects if there is no answer.
 */
export function forward(url: string, request: ForwardedRequest): Promise<IncomingMessage> {
  const { method, path, headers, body, signal } = request;
  return new Promise((resolve, reject) => {
    const sent = httpRequest(new URL(path, url), { method, headers, signal }, resolve);
    sent.on('error', reject);
    sent.end(body ?? undefined);
  });
}

/** Reads an answer to its end. Rejects if it is cut off. */
export async function wholeBody(answer: IncomingMessage): Promise<Uint8Array<ArrayBuffer>> {
  const parts: Uint8Array[] = [];
  for await (const part of answer) if (part instanceof Uint8Array) parts.push(part);
  return new Uint8Array(Buffer.concat(parts));
}
