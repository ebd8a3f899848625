import { dtypes, type DType, type TypedBytes } from '@shardwise/core/spec';
import type { GroupCall } from './calls.ts';
import type { NewCall, RecordedCall, RecordedSize } from './recorded-call.ts';

/** The parts of a recorder that a group's recording uses. */
export interface RecordingOwner {
  group(name: string, rank: number, worldRanks: readonly number[]): GroupRecording;
  add(call: NewCall): RecordedCall;
  fail(call: RecordedCall, error: unknown): void;
}

interface RecordableTransfer {
  readonly operation: 'send' | 'recv';
  readonly buffer: TypedBytes;
  readonly peer: number;
  readonly tag: number;
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
  #splits = 0;
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

  /**
   * The name of the group that a split makes, which is the same on all its ranks. It is asked for when the
   * split is issued.
   */
  partName(color: number | undefined): string {
    return `${this.name}/${this.#splits++}:${color ?? 'none'}`;
  }

  part(name: string, rank: number, worldRanks: readonly number[]): GroupRecording {
    return this.#owner.group(name, rank, worldRanks);
  }

  collective(call: GroupCall, timeoutMs: number): RecordedCall {
    const { record, input, output } = call;
    const recorded = this.#add({
      what: record,
      input: sizeOf(input, record.dtype),
      output: sizeOf(output, record.dtype),
      timeoutMs,
    });
    this.#collectives += 1;
    return recorded;
  }

  transfer({ operation, buffer, peer, tag }: RecordableTransfer, timeoutMs: number): RecordedCall {
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
    return recorded;
  }

  start(call: RecordedCall): void {
    call.startedMs = performance.now();
    this.#lastStarted = call.collectiveSequence;
  }

  /** Records how a call ends, before its caller learns of it. The promise never rejects. */
  async follow(call: RecordedCall, done: Promise<void>): Promise<void> {
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
