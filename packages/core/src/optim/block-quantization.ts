import type { Shape } from '../spec/dtype.ts';
import type { Tensor } from '../tensor/tensor.ts';
import { elementCount } from '../base/shape.ts';
import type { DynamicMap } from './dynamic-map.ts';

/** The number of elements that share a scale. */
const BLOCK_ELEMENTS = 256;

/**
 * Numbers with one byte per element, and a scale for each block: the number of the block that has the largest
 * magnitude.
 */
export interface Quantized {
  /** Shape: u8 [blocks, 256]. */
  readonly codes: Tensor;
  /** Shape: f32 [blocks]. */
  readonly scales: Tensor;
}

function blockCount(shape: Shape): number {
  return Math.ceil(elementCount(shape) / BLOCK_ELEMENTS);
}

/** The shapes of the result of `quantize` for a tensor of this shape. */
export function quantizedShapes(shape: Shape): { readonly codes: Shape; readonly scales: Shape } {
  const blocks = blockCount(shape);
  return { codes: [blocks, BLOCK_ELEMENTS], scales: [blocks] };
}

/**
 * Quantizes values in blocks. Quantizing the result of `dequantize` gives the same codes and scales. For this, the
 * scale is the number with the largest magnitude, including its sign. That number becomes 1 and is kept exactly. Shape:
 * N -> [blocks, 256], [blocks].
 */
export function quantize(values: Tensor, map: DynamicMap): Quantized {
  const blocks = blockCount(values.shape);
  const missing = blocks * BLOCK_ELEMENTS - values.numel;
  const rows = values.reshape([values.numel]).pad([0], [missing]).reshape([blocks, BLOCK_ELEMENTS]);
  const [high, low] = [rows.max(1), rows.min(1)];
  const largest = high.ge(low.neg()).where(high, low);
  // This keeps the division defined for a block of zeros, which stays a block of zeros.
  const scales = largest.abs().lt(SMALLEST).where(SMALLEST, largest);
  return { codes: map.encode(rows.div(scales.reshape([blocks, 1]))), scales };
}

/** The smallest scale. Its products with the numbers of a map are normal f32. */
const SMALLEST = 2 ** -100;

/** Converts codes and scales back to numbers. Shape: [blocks, 256], [blocks] -> shape. */
export function dequantize({ codes, scales }: Quantized, map: DynamicMap, shape: Shape): Tensor {
  const rows = map.decode(codes).mul(scales.reshape([scales.numel, 1]));
  return rows.reshape([rows.numel]).slice(0, 0, elementCount(shape)).reshape(shape);
}
