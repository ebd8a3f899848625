import { dtypes } from '@shardwise/core/spec';
import type { GroupCall } from '../call/calls.ts';
import { elementsBefore } from '../call/record-codec.ts';
import type { Operation } from '../call/record.ts';
import type { SharedMemory } from './shared-memory.ts';

/** A fragment of what every rank exposes, from byte `start` to byte `stop`. */
export interface Window {
  readonly memory: SharedMemory;
  readonly rank: number;
  readonly start: number;
  readonly stop: number;
  /** For each rank, the address of its byte `start`. */
  readonly addresses: readonly number[];
  /** The encoded record of each rank. */
  readonly records: readonly Float64Array[];
}

/**
 * Does one rank's share of the work of a call: it reads what its peers expose. No two ranks write to the same
 * memory.
 */
export function doShare(call: GroupCall, window: Window): void {
  shares[call.record.operation](call, window);
}

type Share = (call: GroupCall, window: Window) => void;

const SLICE_ALIGNMENT = 64;

const shares: Record<Operation, Share> = {
  /** Rank r reduces slice r of the window, and writes the result to all buffers. */
  allReduce: ({ record }, { memory, rank, start, stop, addresses }) => {
    const { dtype, reduce } = record;
    if (dtype === undefined || reduce === undefined) return;
    const share = (stop - start) / addresses.length;
    const sliceBytes = Math.ceil(share / SLICE_ALIGNMENT) * SLICE_ALIGNMENT;
    const from = Math.min(rank * sliceBytes, stop - start);
    const to = Math.min(from + sliceBytes, stop - start);
    const slices = addresses.map((address) => address + from);
    memory.reduce(slices, slices, to - from, dtype, reduce);
  },

  reduceScatter: ({ record, output }, { memory, rank, start, stop, addresses }) => {
    const { dtype, reduce } = record;
    if (dtype === undefined || reduce === undefined) return;
    const mine = rank * output.byteLength;
    const from = Math.max(start, mine);
    const to = Math.min(stop, mine + output.byteLength);
    if (from >= to) return;
    const sources = addresses.map((address) => address + from - start);
    memory.reduceOut(sources, output.subarray(from - mine, to - mine), dtype, reduce);
  },

  reduce: ({ record }, { memory, rank, start, stop, addresses }) => {
    const { dtype, reduce, root } = record;
    const mine = addresses[rank];
    if (rank !== root || dtype === undefined || reduce === undefined) return;
    if (mine !== undefined) memory.reduce(addresses, [mine], stop - start, dtype, reduce);
  },

  allGather: (call, window) => {
    pullAll(call, window);
  },

  gather: (call, window) => {
    if (window.rank === call.record.root) pullAll(call, window);
  },

  broadcast: ({ record, output }, window) => {
    pull(window, record.root ?? 0, 0, output);
  },

  scatter: ({ record, output }, window) => {
    pull(window, record.root ?? 0, window.rank * output.byteLength, output);
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
      pull(window, from, sourceStart, output.subarray(at, at + byteLength));
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
  const size = window.addresses.length;
  const partBytes = output.byteLength / size;
  for (let turn = 1; turn <= size; turn++) {
    const from = (window.rank + turn) % size;
    pull(window, from, 0, output.subarray(from * partBytes, (from + 1) * partBytes));
  }
}

/** Copies the bytes of `from` from `sourceStart` on to `output`, as far as the window has them. */
function pull(window: Window, from: number, sourceStart: number, output: Uint8Array): void {
  const start = Math.max(window.start, sourceStart);
  const stop = Math.min(window.stop, sourceStart + output.byteLength);
  const address = window.addresses[from];
  if (start >= stop || address === undefined) return;
  const fragment = output.subarray(start - sourceStart, stop - sourceStart);
  window.memory.copyOut(address + start - window.start, fragment);
}
