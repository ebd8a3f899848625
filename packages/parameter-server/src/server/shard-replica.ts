import type { RequestConnection } from '@shardwise/core/extend';
import { isRefused } from '../protocol/refusal.ts';
import { withHead } from '../protocol/message.ts';
import type { ServerRequest } from '../protocol/request.ts';
import type { Shard } from './shard.ts';

/** The milliseconds before a server that cannot be reached is tried again. */
const RETRY_MS = 200;

/**
 * The copy of a range on another server. It gets all changes in their order, before a worker gets the answer to any of
 * them.
 */
export class ShardReplica {
  readonly #connect: () => Promise<RequestConnection>;
  readonly #number: number;
  #connection: RequestConnection | null = null;
  #triedMs = Number.NEGATIVE_INFINITY;

  /** `number` is the number of the range. */
  constructor(number: number, connect: () => Promise<RequestConnection>) {
    this.#number = number;
    this.#connect = connect;
  }

  /** Whether there is a copy now. */
  get isAttached(): boolean {
    return this.#connection !== null;
  }

  /** Gives the other server the whole state, if it has no copy and can be reached. */
  async attach(shard: Shard, term: number): Promise<void> {
    if (this.#connection !== null || performance.now() < this.#triedMs + RETRY_MS) return;
    this.#triedMs = performance.now();
    let connection: RequestConnection | null = null;
    try {
      connection = await this.#connect();
      const { head, arrays } = await shard.snapshot();
      const request = { kind: 'adopt', shard: this.#number, term, head };
      await connection.request(withHead(request, arrays), () => undefined);
      this.#connection = connection;
    } catch (error) {
      connection?.close();
      if (isRefused(error, 'not-primary')) throw error;
      // The range has no copy for now. A later change tries again.
    }
  }

  /**
   * Passes a change on. Throws RefusedError 'not-primary' if the other server has taken over. Other refusals are
   * ignored, because this server refuses the same request itself.
   */
  async forward(
    request: ServerRequest,
    arrays: readonly Uint8Array[],
    term: number,
  ): Promise<void> {
    const connection = this.#connection;
    if (connection === null) return;
    try {
      const copy = { kind: 'replicate', shard: this.#number, term, request };
      await connection.request(withHead(copy, arrays), () => undefined);
    } catch (error) {
      const isGone = !isRefused(error) || isRefused(error, 'not-primary', 'no-state');
      if (isGone) this.detach();
      if (isRefused(error, 'not-primary')) throw error;
    }
  }

  detach(): void {
    this.#connection?.close();
    this.#connection = null;
  }
}
