import { z } from 'zod';
import type { Handle } from './mpi-abi.ts';
import type { MpiCalls } from './mpi-calls.ts';

/** What ranks tell each other besides the messages of groups. `world` is the number of a world in the job. */
export type Notice =
  /** The world has failed. */
  | {
      readonly kind: 'abort';
      readonly world: number;
      readonly rank?: number | undefined;
      readonly reason: string;
    }
  | Left
  /** The sender's process is ending because of a failure. */
  | { readonly kind: 'exiting' };

/** The sender has closed a group. */
export interface Left {
  readonly kind: 'left';
  readonly world: number;
  /** The number of the group in its world. */
  readonly group: number;
}

const count = z.int().nonnegative();

const schema = z.discriminatedUnion('kind', [
  z.object({
    kind: z.literal('abort'),
    world: count,
    rank: count.optional(),
    reason: z.string(),
  }),
  z.object({ kind: z.literal('left'), world: count, group: count }),
  z.object({ kind: z.literal('exiting') }),
]);

export const MAX_NOTICE_BYTES = 16_384;
const MAX_REASON_LENGTH = 2000;
const TAG = 0;

/** A request that MPI works on, and the memory that it uses. */
interface Request {
  readonly memory: readonly Uint8Array[];
  readonly handle: ReturnType<MpiCalls['handleMemory']>;
}

/** Carries notices between all ranks of a job, on a communicator that nothing else uses. */
export class NoticeBoard {
  readonly #calls: MpiCalls;
  readonly #communicator: Handle;
  readonly #rank: number;
  readonly #size: number;
  #sent: Request[] = [];
  #meeting: Request | undefined;

  constructor(calls: MpiCalls, communicator: Handle) {
    this.#calls = calls;
    this.#communicator = communicator;
    this.#rank = calls.rank(communicator);
    this.#size = calls.size(communicator);
  }

  /** Sends a notice to all other ranks. */
  tell(notice: Notice): void {
    const bytes = encodeNotice(notice);
    for (let rank = 0; rank < this.#size; rank++) {
      if (rank === this.#rank) continue;
      const handle = this.#calls.handleMemory();
      this.#calls.send(bytes, rank, TAG, this.#communicator, handle);
      this.#sent.push({ memory: [bytes], handle });
    }
  }

  /** Whether all ranks have called this. The caller asks again until it is true. */
  haveMet(): boolean {
    if (this.#meeting === undefined) {
      const own = new Uint8Array(new ArrayBuffer(1));
      const all = new Uint8Array(new ArrayBuffer(this.#size));
      const handle = this.#calls.handleMemory();
      this.#calls.allGather(own, all, this.#communicator, handle);
      this.#meeting = { memory: [own, all], handle };
    }
    return this.#calls.test(this.#meeting.handle);
  }

  /** The notices that have come since the last time. */
  read(): readonly { readonly from: number; readonly notice: Notice }[] {
    if (this.#sent.length > 0) {
      this.#sent = this.#sent.filter(({ handle }) => !this.#calls.test(handle));
    }
    const read: { readonly from: number; readonly notice: Notice }[] = [];
    for (;;) {
      const next = this.#calls.probe(this.#communicator, TAG);
      if (next === undefined) return read;
      const { from, byteLength } = next;
      const bytes = new Uint8Array(new ArrayBuffer(Math.min(byteLength, MAX_NOTICE_BYTES)));
      const handle = this.#calls.handleMemory();
      this.#calls.receive(bytes, from, TAG, this.#communicator, handle);
      // The message has come already, so this takes a moment only.
      while (!this.#calls.test(handle));
      const notice = decodeNotice(bytes);
      if (notice !== undefined) read.push({ from, notice });
    }
  }
}

export function encodeNotice(told: Notice): Uint8Array<ArrayBuffer> {
  const short =
    told.kind === 'abort' ? { ...told, reason: told.reason.slice(0, MAX_REASON_LENGTH) } : told;
  return new TextEncoder().encode(JSON.stringify(short));
}

/** The notice in these bytes. Undefined for bytes that are no notice. */
export function decodeNotice(bytes: Uint8Array): Notice | undefined {
  try {
    return schema.safeParse(JSON.parse(new TextDecoder().decode(bytes))).data;
  } catch {
    return undefined;
  }
}
