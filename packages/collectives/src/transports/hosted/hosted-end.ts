import {
  type AbortCause,
  abortCauseOf,
  abortedByError,
  type CallOptions,
  CollectiveAbortedError,
} from '@shardwise/core/spec';
import type { SharedMemoryGroup } from '../../shared-memory/shared-memory-group.ts';
import type { WatchedTransport } from '../watched-transport.ts';
import { LocalSends } from './local-sends.ts';

/**
 * One rank's end of the transport. The local group numbers this host's ranks from 0. A rank elsewhere that is
 * the cause of its end gets its number in the world plus the number of local ranks:
 *
 *   world      0 1 2 | 3 4 5          host of ranks 3 to 5:
 *   hosts      0 0 0 | 1 1 1          local 0 1 2 are ranks 3 4 5, and 3 + r is rank r
 */
export class HostedEnd implements WatchedTransport {
  readonly specificationVersion = 1;
  readonly rank: number;
  readonly size: number;
  readonly ended: Promise<never>;
  readonly #local: SharedMemoryGroup;
  readonly #remote: WatchedTransport;
  /** For each local rank, its rank in the world. */
  readonly #residents: readonly number[];
  readonly #sends: LocalSends;
  /** Whether this rank has closed the transport without a reason, after which its peers go on. */
  #hasLeft = false;

  constructor(local: SharedMemoryGroup, remote: WatchedTransport, residents: readonly number[]) {
    this.rank = remote.rank;
    this.size = remote.size;
    this.#local = local;
    this.#remote = remote;
    this.#residents = residents;
    this.#sends = new LocalSends(local);
    this.ended = remote.ended;
    local.onAbort((cause) => remote.close(this.#toWorld(cause)));
    remote.ended.catch((error: unknown) => {
      if (!this.#hasLeft) local.close(this.#toLocal(abortCauseOf(error, this.rank)));
    });
  }

  async send(to: number, tag: number, bytes: Uint8Array, options?: CallOptions): Promise<void> {
    const resident = this.#residents.indexOf(to);
    if (resident < 0) return this.#remote.send(to, tag, bytes, options);
    return this.#locally(this.#sends.send(resident, tag, bytes, options));
  }

  async recv(from: number, tag: number, bytes: Uint8Array, options?: CallOptions): Promise<void> {
    const resident = this.#residents.indexOf(from);
    if (resident < 0) return this.#remote.recv(from, tag, bytes, options);
    return this.#locally(this.#local.recvBytes(resident, tag, bytes, options));
  }

  close(reason?: Error): void {
    if (this.#hasLeft) return;
    if (reason === undefined) {
      this.#hasLeft = true;
      this.#local.close();
    }
    this.#remote.close(reason);
  }

  async #locally(done: Promise<void>): Promise<void> {
    try {
      await done;
    } catch (error) {
      if (!(error instanceof CollectiveAbortedError)) throw error;
      throw this.#toWorld({
        rank: numberOf(error.fields.abortedBy),
        reason: String(error.fields.reason),
      });
    }
  }

  #toWorld({ rank, reason }: AbortCause): Error {
    const { length } = this.#residents;
    const by = rank === undefined ? this.rank : (this.#residents[rank] ?? rank - length);
    const text = rank === undefined ? `the launcher ended it: ${reason}` : reason;
    return abortedByError({ rank: by, reason: text });
  }

  #toLocal({ rank, reason }: AbortCause): Error {
    const by = rank ?? this.rank;
    const resident = this.#residents.indexOf(by);
    const { length } = this.#residents;
    return abortedByError({ rank: resident < 0 ? length + by : resident, reason });
  }
}

function numberOf(rank: unknown): number | undefined {
  return typeof rank === 'number' ? rank : undefined;
}
