import type { Communicator, Stream } from '../algorithms/communicator.ts';
import { CALL_TAGS, type GroupEnd } from './group-end.ts';

/** The communicator of one call of a group. Its messages have the call's own tags. */
export class CallCommunicator implements Communicator {
  readonly #group: GroupEnd;
  readonly #firstTag: number;
  /** For each rank, the number of messages from it that have not come yet. */
  readonly #awaited: number[] = [];

  constructor(group: GroupEnd, sequence: number) {
    this.#group = group;
    this.#firstTag = group.firstTag + (sequence % CALL_TAGS);
  }

  get rank(): number {
    return this.#group.rank;
  }

  get size(): number {
    return this.#group.size;
  }

  get hosts(): readonly (readonly number[])[] {
    return this.#group.hosts;
  }

  send(to: number, bytes: Uint8Array, stream: Stream = 0): Promise<void> {
    const { transport, members } = this.#group;
    const sent = transport.send(members[to]!, this.#firstTag + stream * CALL_TAGS, bytes);
    // An algorithm that fails awaits nothing any more, but messages that it has begun to send may fail as well.
    sent.catch(ignore);
    return sent;
  }

  recv(from: number, bytes: Uint8Array, stream: Stream = 0): Promise<void> {
    const { transport, members } = this.#group;
    const awaited = this.#awaited;
    const received = transport.recv(members[from]!, this.#firstTag + stream * CALL_TAGS, bytes);
    awaited[from] = (awaited[from] ?? 0) + 1;
    const settle = (): void => {
      awaited[from] = (awaited[from] ?? 0) - 1;
    };
    received.then(settle, settle);
    return received;
  }

  /** The ranks whose messages have not come, ascending. */
  awaited(): readonly number[] {
    return [...this.#awaited.keys()].filter((rank) => (this.#awaited[rank] ?? 0) > 0);
  }
}

function ignore(): void {}
