import { dtypes, type DType } from '@shardwise/core/spec';
import type { CallFollower } from './call-observer.ts';
import type { GroupCall, Transfer } from './calls.ts';
import type { NewCall, RecordedCall, RecordedSize } from './recorded-call.ts';

/** The parts of a recorder that a group's recording uses. */
export interface RecordingOwner {
  add(call: NewCall): RecordedCall;
  fail(call: RecordedCall, error: unknown): void;
}

/** Records the calls of one group for a flight recorder. */
export class GroupRecording {
  readonly id: number;
  readonly name: string;
  readonly rank: number;
  /** For each rank of the group, its rank in the world. */
  readonly worldRanks: readonly number[];
  readonly #owner: RecordingOwner;
  readonly #messages = new Map<string, number>();
  #collectives = 0;
  #transfers = 0;
  #lastStarted = -1;
  #lastCompleted = -1;

  constructor(
    owner: RecordingOwner,
    group: {
      readonly id: number;
      readonly name: string;
      readonly rank: number;
      readonly worldRanks: readonly number[];
    },
  ) {
    this.#owner = owner;
    this.id = group.id;
    this.name = group.name;
    this.rank = group.rank;
    this.worldRanks = group.worldRanks;
  }

  /** The number of collectives that have been issued. */
  get issuedCollectives(): number {
    return this.#collectives;
  }

  /** The sequence number of the last collective that has begun to move data, or -1. */
  get lastStarted(): number {
    return this.#lastStarted;
  }

  /** The sequence number of the last collective that has completed, or -1. */
  get lastCompleted(): number {
    return this.#lastCompleted;
  }

  collective(call: GroupCall, timeoutMs: number): CallFollower {
    const { record, input, output } = call;
    const recorded = this.#add({
      what: record,
      input: sizeOf(input, record.dtype),
      output: sizeOf(output, record.dtype),
      timeoutMs,
    });
    this.#collectives += 1;
    return this.#follower(recorded);
  }

  transfer({ operation, buffer, peer, tag }: Transfer, timeoutMs: number): CallFollower {
    const key = `${operation} ${peer} ${tag}`;
    const number = this.#messages.get(key) ?? 0;
    this.#messages.set(key, number + 1);
    const size = sizeOf(buffer.bytes, buffer.dtype);
    const recorded = this.#add({
      what: { operation, peer, tag, number },
      input: operation === 'send' ? size : undefined,
      output: operation === 'recv' ? size : undefined,
      timeoutMs,
    });
    this.#transfers += 1;
    return this.#follower(recorded);
  }

  #follower(call: RecordedCall): CallFollower {
    return {
      started: () => {
        call.startedMs = performance.now();
        this.#lastStarted = call.collectiveSequence;
      },
      follow: (done) => this.#follow(call, done),
    };
  }

  async #follow(call: RecordedCall, done: Promise<void>): Promise<void> {
    try {
      await done;
      call.completedMs = performance.now();
      if (!('peer' in call.what)) this.#lastCompleted = call.collectiveSequence;
    } catch (error) {
      this.#owner.fail(call, error);
    }
    call.isRetired = true;
  }

  #add(call: Pick<NewCall, 'what' | 'input' | 'output' | 'timeoutMs'>): RecordedCall {
    return this.#owner.add({
      ...call,
      group: this.id,
      collectiveSequence: this.#collectives,
      transferSequence: this.#transfers,
      groupCall: this.#collectives + this.#transfers,
    });
  }
}

function sizeOf(bytes: Uint8Array, dtype: DType | undefined): RecordedSize | undefined {
  if (dtype === undefined) return undefined;
  return { elements: bytes.byteLength / dtypes[dtype].bytes, dtype };
}
