import { concat, padTo, type Tensor } from '@shardwise/core/extend';

/** The number of consecutive elements that share a scale. */
export const BLOCK_ELEMENTS = 256;

/** The bits of an element on the wire. */
export type QuantizedBits = 4 | 8;

/** Rows of numbers in few bits: codes, and a scale for each block of 256 elements. A row begins a block. */
export interface QuantizedRows {
  /** Shape: u8 [R, ceil(n bits / 8)]. */
  readonly codes: Tensor;
  /** Shape: f32 [R, ceil(n / 256)]. */
  readonly scales: Tensor;
}

/** The bytes of a row of n elements. */
export function quantizedBytes(elements: number, bits: QuantizedBits): number {
  return codeBytes(elements, bits) + Math.ceil(elements / BLOCK_ELEMENTS) * SCALE_BYTES;
}

export const SCALE_BYTES: number = Float32Array.BYTES_PER_ELEMENT;

function codeBytes(elements: number, bits: QuantizedBits): number {
  return Math.ceil((elements * bits) / 8);
}

/**
 * Rounds each element to the nearest multiple of its block's scale, which is the largest magnitude of the block divided by
 * 127 (8 bits) or 7 (4 bits). The error is half a scale at most. A block with an element that is not finite has no finite
 * element afterwards, so that a loss scaler sees it. Shape: f32 [R, n], n > 0 -> [R, ceil(n bits / 8)], [R, ceil(n / 256)].
 */
export function quantizeRows(rows: Tensor, bits: QuantizedBits): QuantizedRows {
  const [count = 0, elements = 0] = rows.shape;
  const blocks = Math.ceil(elements / BLOCK_ELEMENTS);
  const inBlocks = padRows(rows, blocks * BLOCK_ELEMENTS).reshape([count, blocks, BLOCK_ELEMENTS]);
  const largest = inBlocks.abs().max(2, { keepDim: true });
  // A block of zeros keeps a scale that can be divided by.
  const scales = largest
    .lt(SMALLEST_MAGNITUDE)
    .where(SMALLEST_MAGNITUDE, largest)
    .div(largestCodes[bits]);
  const steps = inBlocks.div(scales).round();
  const codes = scales
    .isFinite()
    .where(steps, 1)
    .add(codeOffsets[bits])
    .reshape([count, blocks * BLOCK_ELEMENTS])
    .slice(1, 0, elements);
  return {
    codes: bits === 8 ? codes.to('u8') : inPairs(codes),
    scales: scales.reshape([count, blocks]),
  };
}

/** The largest code, and the number that is added to codes so that they are not negative. */
export const largestCodes = { 4: 7, 8: 127 } as const;
export const codeOffsets = { 4: 8, 8: 128 } as const;

/** The smallest magnitude that is not taken for zero. The scales of larger ones are normal f32. */
export const SMALLEST_MAGNITUDE: number = 2 ** -100;

/** Makes numbers of codes and scales again. Shape: [R, bytes], [R, blocks] -> f32 [R, n], where n is `elements`. */
export function dequantizeRows(
  { codes, scales }: QuantizedRows,
  elements: number,
  bits: QuantizedBits,
): Tensor {
  const [count = 0, blocks = 0] = scales.shape;
  const numbers = bits === 8 ? codes.to('f32') : outOfPairs(codes);
  const inBlocks = padRows(
    numbers.slice(1, 0, elements).sub(codeOffsets[bits]),
    blocks * BLOCK_ELEMENTS,
  );
  return inBlocks
    .reshape([count, blocks, BLOCK_ELEMENTS])
    .mul(scales.reshape([count, blocks, 1]))
    .reshape([count, blocks * BLOCK_ELEMENTS])
    .slice(1, 0, elements);
}

/** Packs two codes of 4 bits into a byte, the first into its lower half. Shape: f32 [R, n] -> u8 [R, ceil(n / 2)]. */
function inPairs(codes: Tensor): Tensor {
  const [count = 0, elements = 0] = codes.shape;
  const pairs = Math.ceil(elements / 2);
  const both = padRows(codes, pairs * 2).reshape([count, pairs, 2]);
  const [first, second] = [both.slice(2, 0, 1), both.slice(2, 1, 2)];
  return second.mul(16).add(first).reshape([count, pairs]).to('u8');
}

/** Shape: u8 [R, b] -> f32 [R, 2 b]. */
function outOfPairs(packed: Tensor): Tensor {
  const [count = 0, pairs = 0] = packed.shape;
  const bytes = packed.to('f32').reshape([count, pairs, 1]);
  const second = bytes.div(16).floor();
  return concat([bytes.sub(second.mul(16)), second], 2).reshape([count, pairs * 2]);
}

/** Adds zeros to the end of each row. Shape: [R, n] -> [R, size]. */
function padRows(rows: Tensor, size: number): Tensor {
  return padTo(rows, 1, size);
}
