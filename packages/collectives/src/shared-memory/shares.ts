import { dtypes } from '@shardwise/core/spec';
import type { GroupCall } from '../call/calls.ts';
import { elementsBefore } from '../call/record-codec.ts';
import type { Operation } from '../call/record.ts';
import type { CallSlots } from './call-slots.ts';
import type { SharedMemory } from './shared-memory.ts';

/**
 * A fragment of what every rank exposes in a call, from byte `start` to byte `stop`. A group has one window, which
 * moves from fragment to fragment. Making another one for each call would take a noticeable part of a short call.
 */
export class Window {
  readonly memory: SharedMemory;
  readonly rank: number;
  readonly size: number;
  start = 0;
  stop = 0;
  readonly #slots: CallSlots;
  readonly #addresses: number[];
  #sequence = 0;

  constructor(slots: CallSlots, memory: SharedMemory) {
    this.memory = memory;
    this.rank = slots.rank;
    this.size = slots.size;
    this.#slots = slots;
    this.#addresses = slots.members.map(() => 0);
  }

  /** Moves the window to bytes of the call with this number, at which all ranks have arrived. */
  moveTo(sequence: number, start: number, stop: number): void {
    this.#sequence = sequence;
    this.start = start;
    this.stop = stop;
  }

  /**
   * The address of a byte of the window in the memory that `rank` exposes. A staging area has only the window's bytes.
   */
  address(rank: number, byte: number): number {
    const first = this.#slots.address(rank, this.#sequence);
    return first + (this.#slots.isStaged(rank, this.#sequence) ? byte - this.start : byte);
  }

  /** For each rank, the address of a byte of the window. The next call overwrites the same array. */
  addresses(byte: number): readonly number[] {
    for (let rank = 0; rank < this.size; rank++) {
      this.#addresses[rank] = this.address(rank, byte);
    }
    return this.#addresses;
  }

  /** The encoded record of each rank. */
  get records(): readonly Float64Array[] {
    return this.#slots.records(this.#sequence);
  }
}

/**
 * Does one rank's share of the work of a call, by reading what its peers expose. No two ranks write to the same memory.
 */
export function doShare(call: GroupCall, window: Window): void {
  shares[call.record.operation](call, window);
}

type Share = (call: GroupCall, window: Window) => void;

const SLICE_ALIGNMENT = 64;

const shares: Record<Operation, Share> = {
  /** Rank r reduces slice r of the window, and writes the result to all buffers. */
  allReduce: ({ record }, window) => {
    const { dtype, reduce } = record;
    if (dtype === undefined || reduce === undefined) return;
    const { memory, rank, size, start, stop } = window;
    const sliceBytes = Math.ceil((stop - start) / size / SLICE_ALIGNMENT) * SLICE_ALIGNMENT;
    const from = Math.min(start + rank * sliceBytes, stop);
    const to = Math.min(from + sliceBytes, stop);
    const slices = window.addresses(from);
    memory.reduce(slices, slices, to - from, dtype, reduce);
  },

  reduceScatter: ({ record, output }, window) => {
    const { dtype, reduce } = record;
    if (dtype === undefined || reduce === undefined) return;
    const { memory, rank, start, stop } = window;
    const mine = rank * output.byteLength;
    const from = Math.max(start, mine);
    const to = Math.min(stop, mine + output.byteLength);
    if (from >= to) return;
    memory.reduceOut(window.addresses(from), output, from - mine, to - mine, dtype, reduce);
  },

  reduce: ({ record }, window) => {
    const { dtype, reduce, root } = record;
    const { memory, rank, start, stop } = window;
    if (rank !== root || dtype === undefined || reduce === undefined) return;
    const mine = window.address(rank, start);
    memory.reduce(window.addresses(start), [mine], stop - start, dtype, reduce);
  },

  allGather: (call, window) => {
    pullAll(call, window);
  },

  gather: (call, window) => {
    if (window.rank === call.record.root) pullAll(call, window);
  },

  broadcast: ({ record, output }, window) => {
    pull(window, record.root ?? 0, 0, output, 0, output.byteLength);
  },

  scatter: ({ record, output }, window) => {
    const { byteLength } = output;
    pull(window, record.root ?? 0, window.rank * byteLength, output, 0, byteLength);
  },

  allToAll: ({ record, output }, window) => {
    const { dtype, splits } = record;
    if (dtype === undefined || splits === undefined) return;
    const elementBytes = dtypes[dtype].bytes;
    let at = 0;
    for (const [from, elements] of splits.output.entries()) {
      const fields = window.records[from] ?? new Float64Array(0);
      const sourceStart = elementsBefore(fields, window.rank) * elementBytes;
      const byteLength = elements * elementBytes;
      pull(window, from, sourceStart, output, at, byteLength);
      at += byteLength;
    }
  },

  barrier: () => {},
  split: () => {},
};

/**
 * Copies every rank's whole input, in rank order. Each rank begins with the next one, so that they read
 * different memory.
 */
function pullAll({ output }: GroupCall, window: Window): void {
  const { rank, size } = window;
  const partBytes = output.byteLength / size;
  for (let turn = 1; turn <= size; turn++) {
    const from = (rank + turn) % size;
    pull(window, from, 0, output, from * partBytes, partBytes);
  }
}

/**
 * Copies `byteLength` bytes of `from`, beginning at `sourceStart`, to the output, beginning at `outputStart`. Bytes
 * outside of the window are left out.
 */
function pull(
  window: Window,
  from: number,
  sourceStart: number,
  output: Uint8Array,
  outputStart: number,
  byteLength: number,
): void {
  const start = Math.max(window.start, sourceStart);
  const stop = Math.min(window.stop, sourceStart + byteLength);
  if (start >= stop) return;
  const place = outputStart + start - sourceStart;
  window.memory.copyOut(window.address(from, start), output, place, stop - start);
}
