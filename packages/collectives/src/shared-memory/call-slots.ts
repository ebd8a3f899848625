import { encodeRecord, recordFields } from '../call/record-codec.ts';
import type { CallRecord } from '../call/record.ts';
import type { Control } from './control.ts';
import { decodeName, NAME_BYTES } from '../call/call-names.ts';
import { RankArea, Name, Slot, SlotNumbers, SLOTS } from './world-memory-map.ts';

/**
 * How often a rank tells the others which calls it has completed. It divides SLOTS, so that nobody waits for a slot
 * of calls that everyone has completed.
 */
const COMPLETED_INTERVAL = 16;

/**
 * The slots in which the ranks of one group tell each other about their calls. Call n uses slot n modulo SLOTS
 * of each rank, and only that rank writes to it. Ranks are numbers of the group.
 */
export class CallSlots {
  readonly rank: number;
  readonly size: number;
  /** For each rank, its rank in the world. */
  readonly members: readonly number[];
  readonly channel: number;
  readonly control: Control;
  /** The first word of slot `index` of `rank` is at place `rank * SLOTS + index`. */
  readonly #slots: Int32Array;
  /** The encoded records, by slot and then by rank. */
  readonly #records: readonly (readonly Float64Array[])[];
  /** The records that this rank has written to its slots. */
  readonly #written: (CallRecord | undefined)[] = Array.from({ length: SLOTS });
  readonly #rankAreaWords: readonly number[];
  /** All ranks have completed the calls before the call with this number, and may have completed more. */
  #completedByAll = 0;

  constructor(control: Control, channel: number, members: readonly number[], rank: number) {
    const { map, numbers } = control;
    this.control = control;
    this.channel = channel;
    this.members = members;
    this.rank = rank;
    this.size = members.length;
    this.#rankAreaWords = members.map((member) => map.rankArea(channel, member) / 4);
    this.#slots = Int32Array.from(
      members.flatMap((member) =>
        Array.from({ length: SLOTS }, (_, index) => map.slot(channel, member, index) / 4),
      ),
    );
    const fields = recordFields(this.size);
    this.#records = Array.from({ length: SLOTS }, (_, index) =>
      members.map((member) => {
        const start = (map.slot(channel, member, index) + map.recordInSlot()) / 8;
        return numbers.subarray(start, start + fields);
      }),
    );
  }

  /** Whether every rank has completed the call that used this slot before. */
  slotIsFree(sequence: number): boolean {
    // Memory that other cores write is slow to read, so it is read only if needed.
    if (sequence - SLOTS < this.#completedByAll) return true;
    const { words } = this.control;
    const completed = this.#rankAreaWords.map((area) =>
      Atomics.load(words, area + RankArea.completed),
    );
    this.#completedByAll = Math.min(...completed);
    return sequence - SLOTS < this.#completedByAll;
  }

  /**
   * Writes where peers can read this rank's bytes during a call. `address` is a place in the shared memory. It is that
   * of the bytes, or, if they are staged, that of the staging area through which they pass in fragments.
   */
  expose(sequence: number, address: number, byteLength: number, isStaged: boolean): void {
    const { words, numbers } = this.control;
    const slot = this.#slots[this.#index(this.rank, sequence)] ?? 0;
    words[slot + Slot.staged] = isStaged ? 1 : 0;
    numbers[slot / 2 + SlotNumbers.address] = address;
    numbers[slot / 2 + SlotNumbers.byteLength] = byteLength;
  }

  /** Tells the others that this rank has come to a call, after it has exposed its bytes. */
  publish(sequence: number, record: CallRecord): void {
    const { words } = this.control;
    const slot = this.#slots[this.#index(this.rank, sequence)] ?? 0;
    this.#writeRecord(sequence, record);
    words[slot + Slot.reached] = 0;
    Atomics.store(words, slot + Slot.arrived, sequence + 1);
    this.ringPeers();
  }

  /**
   * Writes a call's record. Nothing is written if the slot already has the same object, as it often does for barriers.
   */
  #writeRecord(sequence: number, record: CallRecord): void {
    const slot = sequence % SLOTS;
    const fields = this.#records[slot]?.[this.rank];
    if (fields === undefined || this.#written[slot] === record) return;
    encodeRecord(record, this.size, fields);
    this.#written[slot] = record;
  }

  arrived(rank: number, sequence: number): boolean {
    const slot = this.#slots[this.#index(rank, sequence)] ?? 0;
    return Atomics.load(this.control.words, slot + Slot.arrived) === sequence + 1;
  }

  /** How far a rank is in a call, as it has told by setReached. It is valid once the rank has arrived. */
  reached(rank: number, sequence: number): number {
    const slot = this.#slots[this.#index(rank, sequence)] ?? 0;
    return Atomics.load(this.control.words, slot + Slot.reached);
  }

  setReached(sequence: number, progress: number): void {
    const slot = this.#slots[this.#index(this.rank, sequence)] ?? 0;
    Atomics.store(this.control.words, slot + Slot.reached, progress);
    this.ringPeers();
  }

  /** The encoded record of each rank. They are valid once all ranks have arrived. */
  records(sequence: number): readonly Float64Array[] {
    return this.#records[sequence % SLOTS] ?? [];
  }

  /** Tells the others what this rank's call is, because their calls differ from it. */
  writeName(sequence: number, name: Uint8Array): void {
    const { map, words, bytes } = this.control;
    const member = this.members[this.rank] ?? 0;
    const word = map.name(member) / 4;
    bytes.set(name, map.nameText(member));
    words[word + Name.channel] = this.channel;
    Atomics.store(words, word + Name.sequence, sequence + 1);
    this.ringPeers();
  }

  /** What each rank has said that its call is. Undefined for ranks that have not said it yet. */
  names(sequence: number): readonly (string | undefined)[] {
    const { map, words, bytes } = this.control;
    return this.members.map((member) => {
      const word = map.name(member) / 4;
      if (Atomics.load(words, word + Name.sequence) !== sequence + 1) return undefined;
      if (words[word + Name.channel] !== this.channel) return undefined;
      const start = map.nameText(member);
      return decodeName(bytes.slice(start, start + NAME_BYTES));
    });
  }

  /** The address of the bytes that a rank exposes. Like the following values, it is valid once the rank has arrived. */
  address(rank: number, sequence: number): number {
    const slot = this.#slots[this.#index(rank, sequence)] ?? 0;
    return this.control.numbers[slot / 2 + SlotNumbers.address] ?? 0;
  }

  /** The length of the bytes that a rank exposes. */
  byteLength(rank: number, sequence: number): number {
    const slot = this.#slots[this.#index(rank, sequence)] ?? 0;
    return this.control.numbers[slot / 2 + SlotNumbers.byteLength] ?? 0;
  }

  /** Whether the bytes that a rank exposes pass through its staging area, in fragments. */
  isStaged(rank: number, sequence: number): boolean {
    const slot = this.#slots[this.#index(rank, sequence)] ?? 0;
    return this.control.words[slot + Slot.staged] === 1;
  }

  /** Notes that this rank has completed all calls before `sequence`, and tells the others from time to time. */
  setCompleted(sequence: number): void {
    if (sequence % COMPLETED_INTERVAL !== 0) return;
    Atomics.store(
      this.control.words,
      (this.#rankAreaWords[this.rank] ?? 0) + RankArea.completed,
      sequence,
    );
    if (sequence % SLOTS === 0) this.ringPeers();
  }

  closed(rank: number): boolean {
    return (
      Atomics.load(this.control.words, (this.#rankAreaWords[rank] ?? 0) + RankArea.closed) === 1
    );
  }

  setClosed(): void {
    Atomics.store(this.control.words, (this.#rankAreaWords[this.rank] ?? 0) + RankArea.closed, 1);
    this.ringPeers();
  }

  ring(rank: number): void {
    this.control.ring(this.members[rank] ?? 0);
  }

  ringPeers(): void {
    for (let rank = 0; rank < this.size; rank++) {
      if (rank !== this.rank) this.ring(rank);
    }
  }

  #index(rank: number, sequence: number): number {
    return rank * SLOTS + (sequence % SLOTS);
  }
}
