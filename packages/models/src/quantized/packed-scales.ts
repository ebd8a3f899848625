import { elementCount, fromData, type Shape, type Tensor } from '@shardwise/core/extend';

/** Scales of blocks in 8 bits each, with a scale for each 256 of them, and their mean (double quantization). */
export interface PackedScales<Codes, Numbers> {
  /** Shape: u8 [blocks]. */
  readonly codes: Codes;
  /** Shape: f32 [ceil(blocks / 256)]. */
  readonly scales: Numbers;
  /** Shape: f32 [1]. */
  readonly mean: Numbers;
}

const GROUP = 256;
const DECADES = 7;

/**
 * The 256 numbers of dynamic tree quantization in ascending order (Dettmers et al. 2022), as bitsandbytes has them: seven
 * decades, each with twice as many numbers as the one below, with both signs, and 0 and 1.
 */
const table: Float32Array<ArrayBuffer> = dynamicMap();

function dynamicMap(): Float32Array<ArrayBuffer> {
  const positive = Array.from({ length: DECADES }, (_, decade) => {
    const count = 2 ** decade;
    const width = 0.9 / count;
    return Array.from(
      { length: count },
      (__, index) => 10 ** (decade - DECADES + 1) * (0.1 + width * (index + 0.5)),
    );
  }).flat();
  return Float32Array.from([...positive.map((value) => -value), 0, ...positive, 1]).sort();
}

export function packScales(all: Float32Array): PackedScales<Uint8Array, Float32Array> {
  const mean = Math.fround(all.reduce((sum, scale) => sum + scale, 0) / all.length);
  const rest = all.map((scale) => scale - mean);
  const scales = Float32Array.from({ length: Math.ceil(all.length / GROUP) }, (_, group) => {
    const own = rest.subarray(group * GROUP, (group + 1) * GROUP);
    return own.reduce((most, value) => Math.max(most, Math.abs(value)), 0) || 1;
  });
  const codes = Uint8Array.from(rest, (value, index) =>
    nearest(Math.fround(value / (scales[Math.floor(index / GROUP)] ?? 1))),
  );
  return { codes, scales, mean: Float32Array.of(mean) };
}

/** The place of the number of the table that is nearest. */
function nearest(value: number): number {
  let [low, high] = [0, table.length - 1];
  while (low < high) {
    const middle = (low + high) >> 1;
    const midpoint = ((table[middle] ?? 0) + (table[middle + 1] ?? 0)) / 2;
    if (value > midpoint) low = middle + 1;
    else high = middle;
  }
  return low;
}

/**
 * Returns the scales of blocks, or of those that this rank has the codes of. All ranks have the scales of the whole weight's
 * codes, 256 of which lie one after another in `shape`. Shape: codes, of `shape` or a part of it -> f32, the same.
 */
export function unpackScales(
  { codes, scales, mean }: PackedScales<Tensor, Tensor>,
  shape: Shape,
  partOf: (whole: Tensor) => Tensor,
): Tensor {
  const numbers = fromData(table.slice(), [table.length], 'f32');
  const values = numbers.indexSelect(0, codes.to('i32').reshape([-1])).reshape(codes.shape);
  const each = scales
    .reshape([-1, 1])
    .expand([scales.numel, GROUP])
    .reshape([-1])
    .slice(0, 0, elementCount(shape))
    .reshape(shape);
  return values.mul(partOf(each)).add(mean);
}
