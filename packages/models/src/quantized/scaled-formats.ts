import { fromData, stack, type Tensor } from '@shardwise/core/extend';
import { type BlockFormat, fieldOf } from './block-format.ts';

/** How the elements of a block become bytes. A block is divided by its largest magnitude before, which is kept apart. */
export interface ScaledFormat extends BlockFormat {
  readonly bits: 4 | 8;
  /** Shape: values f32 [blocks, elements] of [-1, 1] -> u8 [blocks, bytes]. */
  readonly encode: (values: Tensor) => Tensor;
}

const BLOCK_ELEMENTS = 64;

/**
 * The sixteen numbers of NF4 (Dettmers et al. 2023, "QLoRA"): quantiles of the normal distribution, as bitsandbytes has
 * them.
 */
const nf4 = Float32Array.of(
  -1,
  -0.6961928009986877,
  -0.5250730514526367,
  -0.39491748809814453,
  -0.28444138169288635,
  -0.18477343022823334,
  -0.09105003625154495,
  0,
  0.07958029955625534,
  0.16093020141124725,
  0.24611230194568634,
  0.33791524171829224,
  0.44070982933044434,
  0.5626170039176941,
  0.7229568362236023,
  1,
);

/** Four bits for each element, the first of two in the high bits of a byte. The nearest number of NF4 is taken. */
const nf4Format: ScaledFormat = {
  name: 'nf4',
  bits: 4,
  elements: BLOCK_ELEMENTS,
  bytes: BLOCK_ELEMENTS / 2,
  encode: (values) => {
    // The code is the number of midpoints between two numbers of the table that lie below the value.
    const codes = Array.from(nf4.subarray(1), (high, index) => ((nf4[index] ?? 0) + high) / 2)
      .map((midpoint) => values.gt(midpoint).to('f32'))
      .reduce((sum, isAbove) => sum.add(isAbove));
    const [blocks = 0] = values.shape;
    const pairs = codes.reshape([blocks, BLOCK_ELEMENTS / 2, 2]);
    return pairs.select(2, 0).mul(16).add(pairs.select(2, 1)).to('u8');
  },
  decode: (bytes) => {
    const [blocks = 0] = bytes.shape;
    const both = bytes.to('f32');
    const codes = stack([fieldOf(both, 4, 4), fieldOf(both, 0, 4)], 2).to('i32');
    const table = fromData(nf4.slice(), [nf4.length], 'f32');
    return table
      .indexSelect(0, codes.reshape([blocks * BLOCK_ELEMENTS]))
      .reshape([blocks, BLOCK_ELEMENTS]);
  },
};

/** A whole number from -127 to 127 for each element, plus 128. */
const int8Format: ScaledFormat = {
  name: 'int8',
  bits: 8,
  elements: BLOCK_ELEMENTS,
  bytes: BLOCK_ELEMENTS,
  encode: (values) => values.mul(127).round().add(128).to('u8'),
  decode: (bytes) => bytes.to('f32').sub(128).div(127),
};

/** The formats that this package encodes, by their bits. */
export const scaledFormats: Readonly<Record<4 | 8, ScaledFormat>> = { 4: nf4Format, 8: int8Format };

/** Elements in row-major order, in rows of this size, with zeros at the end. Shape: N -> [groups, size]. */
export function inGroups(values: Tensor, size: number): Tensor {
  const missing = Math.ceil(values.numel / size) * size - values.numel;
  return values.reshape([values.numel]).pad([0], [missing]).reshape([-1, size]);
}

/** The largest magnitude of each row; 1 for a row of zeros. Shape: f32 [groups, size] -> [groups]. */
export function scalesOf(groups: Tensor): Tensor {
  const largest = groups.abs().max(1);
  return largest.eq(0).where(1, largest);
}
