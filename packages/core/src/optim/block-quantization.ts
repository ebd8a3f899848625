import type { Shape } from '../spec/dtype.ts';
import type { Tensor } from '../tensor/tensor.ts';
import { elementCount } from '../shape.ts';
import type { DynamicMap } from './dynamic-map.ts';

/** Elements that share a scale. */
const blockElements = 256;

/** One byte an element, and the largest magnitude of each block. */
export interface Quantized {
  /** Shape: u8 [blocks, 256]. */
  readonly codes: Tensor;
  /** Shape: f32 [blocks]. */
  readonly scales: Tensor;
}

export function blockCount(shape: Shape): number {
  return Math.ceil(elementCount(shape) / blockElements);
}

/** Shapes of what `quantize` makes of a tensor of this shape. */
export function quantizedShapes(shape: Shape): { readonly codes: Shape; readonly scales: Shape } {
  const blocks = blockCount(shape);
  return { codes: [blocks, blockElements], scales: [blocks] };
}

/** Shape: N -> [blocks, 256], [blocks]. */
export function quantize(values: Tensor, map: DynamicMap): Quantized {
  const blocks = blockCount(values.shape);
  const missing = blocks * blockElements - values.numel;
  const rows = values.reshape([values.numel]).pad([0], [missing]).reshape([blocks, blockElements]);
  const scales = rows.abs().max(1);
  // A block of zeros stays one.
  const divisors = scales.maximum(smallest).reshape([blocks, 1]);
  return { codes: map.encode(rows.div(divisors)), scales };
}

/** The smallest normal f32. */
const smallest = 2 ** -126;

/** Shape: [blocks, 256], [blocks] -> shape. */
export function dequantize({ codes, scales }: Quantized, map: DynamicMap, shape: Shape): Tensor {
  const rows = map.decode(codes).mul(scales.reshape([scales.numel, 1]));
  return rows.reshape([rows.numel]).slice(0, 0, elementCount(shape)).reshape(shape);
}
