import {
  CollectiveTimeoutError,
  RefusedError,
  type CallOptions,
  type RequestConnection,
} from '@shardwise/core/spec';
import type { AnswerOnPort, RequestOnPort } from './server-task.ts';

/** Sends requests over a port of the page to a worker that answers them, because pages have no sockets. */
export class PortConnection implements RequestConnection {
  readonly address = 'the server of the page';
  readonly #port: MessagePort;
  readonly #pending = new Map<number, PromiseWithResolvers<readonly Uint8Array[]>>();
  #requests = 0;

  constructor(port: MessagePort) {
    this.#port = port;
    port.addEventListener('message', ({ data }: MessageEvent<AnswerOnPort>) => {
      const pending = this.#pending.get(data.number);
      this.#pending.delete(data.number);
      if ('parts' in data) pending?.resolve(data.parts);
      else pending?.reject(this.#refused(data.refusal, data.text));
    });
    port.start();
  }

  async request<T>(
    parts: readonly Uint8Array[],
    read: (answer: readonly Uint8Array[]) => T | Promise<T>,
    { timeoutMs, signal }: CallOptions = {},
  ): Promise<T> {
    signal?.throwIfAborted();
    this.#requests += 1;
    const number = this.#requests;
    const pending = Promise.withResolvers<readonly Uint8Array[]>();
    this.#pending.set(number, pending);
    const abort = (): void => pending.reject(signal?.reason);
    signal?.addEventListener('abort', abort, { once: true });
    const timer =
      timeoutMs === undefined || !Number.isFinite(timeoutMs)
        ? undefined
        : setTimeout(() => pending.reject(this.#late(timeoutMs)), timeoutMs);
    // The parts are copied, because shared memory cannot be posted as it is.
    this.#port.postMessage({
      number,
      parts: parts.map((part) => new Uint8Array(part)),
    } satisfies RequestOnPort);
    try {
      return await read(await pending.promise);
    } finally {
      clearTimeout(timer);
      signal?.removeEventListener('abort', abort);
      this.#pending.delete(number);
    }
  }

  close(): void {
    this.#port.close();
    for (const { reject } of this.#pending.values())
      reject(this.#refused('closed', 'it was closed'));
  }

  #refused(refusal: string, found: string): RefusedError {
    return new RefusedError(
      { asked: `A request to ${this.address}`, found, todo: 'Start the training again' },
      { refusal, address: this.address },
    );
  }

  #late(timeoutMs: number): CollectiveTimeoutError {
    return new CollectiveTimeoutError(
      {
        asked: `A request to ${this.address}`,
        found: `no answer within ${timeoutMs} ms`,
        todo: 'Start the training again',
      },
      { timeoutMs },
    );
  }
}
