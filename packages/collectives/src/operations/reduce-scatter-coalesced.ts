import {
  dtypes,
  ShapeError,
  type CallOptions,
  type ProcessGroup,
  type ReduceOp,
  type TypedBytes,
} from '@shardwise/core/spec';
import { checkBuffer, checkSameDType } from '../call/checks.ts';
import { concatenate } from './flat.ts';
import { packsOf, pairsOf, type Pair } from './packs.ts';

const OPERATION = 'reduceScatterCoalesced';

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
  const pairs = pairsOf(OPERATION, group, inputs, outputs);
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
  const elements = checkBuffer(OPERATION, `input ${index}`, input);
  const given = checkBuffer(OPERATION, `output ${index}`, output);
  checkSameDType(OPERATION, input.dtype, output.dtype);
  const chunk = Math.ceil(elements / size);
  const expected = Math.min(chunk, Math.max(elements - rank * chunk, 0));
  if (given === expected) return;
  throw new ShapeError(
    {
      asked: `${OPERATION} with input ${index} of ${elements} elements and an output of ${given}`,
      found: `over ${size} ranks the part of rank ${rank} has ${expected}`,
      todo: `Make output ${index} as long as that`,
    },
    { operation: OPERATION, index, elements, given, expected },
  );
}
