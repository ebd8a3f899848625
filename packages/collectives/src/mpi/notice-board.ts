import type { Handle } from './mpi-abi.ts';
import type { MpiCalls } from './mpi-calls.ts';
import { MpiWire, type Request } from './mpi-wire.ts';
import { decodeNotice, encodeNotice, MAX_NOTICE_BYTES, type Notice } from './notice.ts';

const TAG = 0;

/** Notices between all ranks of a job, on a communicator that has nothing else. */
export class NoticeBoard {
  readonly #calls: MpiCalls;
  readonly #communicator: Handle;
  readonly #wire: MpiWire;
  #sent: Request[] = [];

  constructor(calls: MpiCalls, communicator: Handle) {
    this.#calls = calls;
    this.#communicator = communicator;
    this.#wire = new MpiWire(calls, communicator);
  }

  tell(notice: Notice, ranks: Iterable<number>): void {
    const bytes = encodeNotice(notice);
    for (const rank of ranks) {
      if (rank !== this.#wire.rank) this.#sent.push(this.#wire.send(rank, bytes, TAG));
    }
  }

  /** Done when all ranks have called it. */
  meet(): Request {
    const own = new Uint8Array(new ArrayBuffer(1));
    return this.#wire.allGather(own, new Uint8Array(new ArrayBuffer(this.#wire.size)));
  }

  /** What has come since it was last asked. */
  read(): readonly { readonly from: number; readonly notice: Notice }[] {
    if (this.#sent.length > 0) this.#sent = this.#sent.filter((request) => !request.isDone());
    const read: { readonly from: number; readonly notice: Notice }[] = [];
    for (;;) {
      const next = this.#calls.probe(TAG, this.#communicator);
      if (next === undefined) return read;
      const { from, byteLength } = next;
      const bytes = new Uint8Array(new ArrayBuffer(Math.min(byteLength, MAX_NOTICE_BYTES)));
      const received = this.#wire.receive(from, bytes, TAG);
      // It has come, so this is but a moment.
      while (!received.isDone());
      const notice = decodeNotice(bytes);
      if (notice !== undefined) read.push({ from, notice });
    }
  }
}
