import { dtypes, type DType, type TypedBytes } from '@shardwise/core/spec';
import type { GroupCall } from '../call/calls.ts';
import type { FlightGroup, FlightStatus } from './flight-dump.ts';
import type { NewCall, RecordedCall, RecordedSize } from './recorded-call.ts';

/** What a group needs of the recorder that it belongs to. */
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

/** One group's part of a flight recorder. */
export class GroupRecording {
  readonly id: number;
  readonly name: string;
  readonly rank: number;
  /** By rank of the group. */
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

  get config(): FlightGroup {
    return {
      name: this.name,
      desc: `${this.worldRanks.length} ranks`,
      ranks: `[${this.worldRanks.join(', ')}]`,
    };
  }

  get status(): FlightStatus {
    return {
      last_enqueued_collective: this.#collectives - 1,
      last_started_collective: this.#lastStarted,
      last_completed_collective: this.#lastCompleted,
    };
  }

  /** Name of the group that a split makes, the same on all its ranks; asked when it is issued. */
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

  /** Takes down how a call ends, before its caller learns of it; never rejects. */
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
