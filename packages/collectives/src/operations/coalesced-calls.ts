import {
  type CallOptions,
  dtypes,
  type ProcessGroup,
  type ReduceOp,
  ShapeError,
  type TypedBytes,
} from '@shardwise/core/spec';
import { concatenate, spread } from './flat.ts';
import { checkAll, packsOf, type Pair, pairsOf } from './packs.ts';
import { checkBuffer, checkParts, checkSameDType } from '../call/checks.ts';

/** Does an `allReduce` of many buffers, in place. Short ones share a call. The bits are those of single calls. */
export async function allReduceCoalesced(
  group: ProcessGroup,
  buffers: readonly TypedBytes[],
  op: ReduceOp,
  options?: CallOptions,
): Promise<void> {
  checkAll('allReduceCoalesced', group, buffers);
  const calls = packsOf(buffers, (buffer) => buffer).map(async ({ dtype, items }) => {
    const [only, ...others] = items;
    if (only !== undefined && others.length === 0) return group.allReduce(only, op, options);
    const parts = items.map(({ bytes }) => bytes);
    const flat = concatenate(parts);
    await group.allReduce({ bytes: flat, dtype }, op, options);
    spread(flat, parts);
  });
  await Promise.all(calls);
}

/** Does a `broadcast` of many buffers, in place. Short ones share a call. */
export async function broadcastCoalesced(
  group: ProcessGroup,
  buffers: readonly TypedBytes[],
  root: number,
  options?: CallOptions,
): Promise<void> {
  checkAll('broadcastCoalesced', group, buffers);
  const calls = packsOf(buffers, (buffer) => buffer).map(async ({ dtype, items }) => {
    const [only, ...others] = items;
    if (only !== undefined && others.length === 0) return group.broadcast(only, root, options);
    const parts = items.map(({ bytes }) => bytes);
    const flat = concatenate(parts);
    await group.broadcast({ bytes: flat, dtype }, root, options);
    if (group.rank !== root) spread(flat, parts);
  });
  await Promise.all(calls);
}

/**
 * Does an `allGather` of each input into the output at the same place of the list. Short ones share a call.
 * Throws what `allGather` throws, and ConfigError if the lists have different lengths.
 * Shape: each input [n] -> output [W*n].
 */
export async function allGatherCoalesced(
  group: ProcessGroup,
  inputs: readonly TypedBytes[],
  outputs: readonly TypedBytes[],
  options?: CallOptions,
): Promise<void> {
  const pairs = pairsOf('allGatherCoalesced', group, inputs, outputs);
  for (const { input, output } of pairs) {
    checkParts(
      'allGatherCoalesced',
      { name: 'input', buffer: input },
      { name: 'output', buffer: output },
      group,
    );
  }
  const calls = packsOf(pairs, ({ output }) => output).map(async ({ dtype, items }) => {
    const [only, ...others] = items;
    if (only !== undefined && others.length === 0) {
      return group.allGather(only.input, only.output, options);
    }
    const flat = concatenate(items.map(({ input }) => input.bytes));
    const gathered = new Uint8Array(flat.byteLength * group.size);
    await group.allGather({ bytes: flat, dtype }, { bytes: gathered, dtype }, options);
    // The parts have the order in which they were gathered: by rank, then by item.
    const parts = Array.from({ length: group.size }, (_, rank) =>
      items.map(({ input, output }) => {
        const { byteLength } = input.bytes;
        return output.bytes.subarray(rank * byteLength, (rank + 1) * byteLength);
      }),
    );
    spread(gathered, parts.flat());
  });
  await Promise.all(calls);
}

const REDUCE_SCATTER = 'reduceScatterCoalesced';

/**
 * Does a `reduceScatter` of each input into the output at the same place of the list. Short ones share a call.
 * The length n of an input need not be a multiple of the group's size W. Parts are those of torch.chunk: ceil(n
 * / W) elements, and the last ones are shorter or empty (as in DeepSpeed's reduce_scatter_coalesced). Throws
 * ShapeError for an output of another length.
 */
export async function reduceScatterCoalesced(
  group: ProcessGroup,
  inputs: readonly TypedBytes[],
  outputs: readonly TypedBytes[],
  op: ReduceOp,
  options?: CallOptions,
): Promise<void> {
  const pairs = pairsOf(REDUCE_SCATTER, group, inputs, outputs);
  for (const [index, pair] of pairs.entries()) checkChunk(index, pair, group);
  const calls = packsOf(pairs, ({ input }) => input).map(async ({ dtype, items }) => {
    const [only, ...others] = items;
    if (only !== undefined && others.length === 0 && isEven(only, group.size)) {
      return group.reduceScatter(only.input, only.output, op, options);
    }
    const flat = concatenate(
      Array.from({ length: group.size }, (_, rank) =>
        concatenate(items.map(({ input }) => paddedChunk(input, rank, group.size))),
      ),
    );
    const reduced = new Uint8Array(flat.byteLength / group.size);
    await group.reduceScatter({ bytes: flat, dtype }, { bytes: reduced, dtype }, op, options);
    let start = 0;
    for (const { input, output } of items) {
      output.bytes.set(reduced.subarray(start, start + output.bytes.byteLength));
      start += chunkBytes(input, group.size);
    }
  });
  await Promise.all(calls);
}

function chunkBytes({ bytes, dtype }: TypedBytes, size: number): number {
  const elementBytes = dtypes[dtype].bytes;
  return Math.ceil(bytes.byteLength / elementBytes / size) * elementBytes;
}

function isEven({ input }: Pair, size: number): boolean {
  return chunkBytes(input, size) * size === input.bytes.byteLength;
}

/** Part `rank` of the input, padded with zeros if it is shorter than the others. */
function paddedChunk(input: TypedBytes, rank: number, size: number): Uint8Array {
  const length = chunkBytes(input, size);
  const chunk = input.bytes.subarray(rank * length, (rank + 1) * length);
  if (chunk.byteLength === length) return chunk;
  const padded = new Uint8Array(length);
  padded.set(chunk);
  return padded;
}

function checkChunk(
  index: number,
  { input, output }: Pair,
  { rank, size }: { readonly rank: number; readonly size: number },
): void {
  const elements = checkBuffer(REDUCE_SCATTER, `input ${index}`, input);
  const given = checkBuffer(REDUCE_SCATTER, `output ${index}`, output);
  checkSameDType(REDUCE_SCATTER, input.dtype, output.dtype);
  const chunk = Math.ceil(elements / size);
  const expected = Math.min(chunk, Math.max(elements - rank * chunk, 0));
  if (given === expected) return;
  throw new ShapeError(
    {
      asked: `${REDUCE_SCATTER} with input ${index} of ${elements} elements and an output of ${given}`,
      found: `over ${size} ranks the part of rank ${rank} has ${expected}`,
      todo: `Make output ${index} as long as that`,
    },
    { operation: REDUCE_SCATTER, index, elements, given, expected },
  );
}
