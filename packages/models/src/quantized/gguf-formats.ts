import {
  concat,
  type DecodedFormat,
  ggufBlockFormats,
  type GgufBlockName,
  stack,
  type Tensor,
} from '@shardwise/core/extend';
import { fieldOf } from './block-format.ts';

/** A decoder of blocks whose bytes are numbers of f32 already. */
type Decode = (bytes: Tensor, blocks: number) => Tensor;

function format(name: GgufBlockName, decode: Decode): DecodedFormat {
  const sizes = ggufBlockFormats[name];
  return {
    ...sizes,
    decode: (stored) => {
      const [blocks = 0] = stored.shape;
      return decode(stored.to('f32'), blocks).reshape([blocks, sizes.elements]);
    },
  };
}

/**
 * The formats as ggml-quants.c defines them, with q for the whole numbers of elements, and d and m for numbers of f16.
 * The products of q with scales have at most 24 bits, so that each element is rounded at most once.
 */
export const ggufFormats: Readonly<Record<GgufBlockName, DecodedFormat>> = {
  // d, q of 4 bits
  Q4_0: format('Q4_0', (bytes) => halvesOf(bytes, 2, 16).sub(8).mul(halfAt(bytes, 0))),
  // d, m, q of 4 bits
  Q4_1: format('Q4_1', (bytes) =>
    halvesOf(bytes, 4, 16).mul(halfAt(bytes, 0)).add(halfAt(bytes, 2)),
  ),
  // d, the fifth bits of q, the other four
  Q5_0: format('Q5_0', (bytes, blocks) =>
    halvesOf(bytes, 6, 16)
      .add(bitsAt(bytes, 2, 4).reshape([blocks, 32]).mul(16))
      .sub(16)
      .mul(halfAt(bytes, 0)),
  ),
  // d, m, the fifth bits of q, the other four
  Q5_1: format('Q5_1', (bytes, blocks) =>
    halvesOf(bytes, 8, 16)
      .add(bitsAt(bytes, 4, 4).reshape([blocks, 32]).mul(16))
      .mul(halfAt(bytes, 0))
      .add(halfAt(bytes, 2)),
  ),
  // d, q of 8 bits with a sign
  Q8_0: format('Q8_0', (bytes) => signed(part(bytes, 2, 32)).mul(halfAt(bytes, 0))),
  // d, m, scales, q of 4 bits
  Q4_K: format('Q4_K', (bytes, blocks) => scaledParts(bytes, blocks, quarters(bytes, blocks, 16))),
  // d, m, scales, the fifth bits of q, the other four
  Q5_K: format('Q5_K', (bytes, blocks) => {
    // Bit j of the bytes is that of the j-th 32 elements.
    const fifth = bitsAt(bytes, 16, 32).transpose(1, 2);
    return scaledParts(bytes, blocks, quarters(bytes, blocks, 48).add(fifth.mul(16)));
  }),
  // the low four bits of q, the other two, scales with a sign, d
  Q6_K: format('Q6_K', (bytes, blocks) => {
    const lower = part(bytes, 0, 128).reshape([blocks, 2, 64]);
    const low = stack([fieldOf(lower, 0, 4), fieldOf(lower, 4, 4)], 2);
    const upper = part(bytes, 128, 64).reshape([blocks, 2, 32]);
    const high = stack(
      [0, 2, 4, 6].map((shift) => fieldOf(upper, shift, 2)),
      2,
    );
    const scales = signed(part(bytes, 192, 16)).mul(halfAt(bytes, 208));
    return low
      .reshape([blocks, 16, 16])
      .add(high.reshape([blocks, 16, 16]).mul(16))
      .sub(32)
      .mul(scales.unsqueeze(2));
  }),
};

/** Shape: f32 [blocks, bytes] -> [blocks, count]. */
function part(bytes: Tensor, start: number, count: number): Tensor {
  return bytes.slice(1, start, start + count);
}

/** The low halves of bytes, and then the high ones. Shape: f32 [blocks, bytes] -> [blocks, 2 · count]. */
function halvesOf(bytes: Tensor, start: number, count: number): Tensor {
  const both = part(bytes, start, count);
  return concat([fieldOf(both, 0, 4), fieldOf(both, 4, 4)], 1);
}

/** The eight bits of each byte. Shape: f32 [blocks, bytes] -> [blocks, count, 8]. */
function bitsAt(bytes: Tensor, start: number, count: number): Tensor {
  const own = part(bytes, start, count);
  return stack(
    Array.from({ length: 8 }, (_, shift) => fieldOf(own, shift, 1)),
    2,
  );
}

/** Shape: f32 N of 0 to 255 -> N of -128 to 127. */
function signed(bytes: Tensor): Tensor {
  return bytes.sub(fieldOf(bytes, 7, 1).mul(256));
}

/** A number of f16. Shape: f32 [blocks, bytes] -> [blocks, 1]. */
function halfAt(bytes: Tensor, start: number): Tensor {
  const high = part(bytes, start + 1, 1);
  const exponent = fieldOf(high, 2, 5);
  const digits = fieldOf(high, 0, 2)
    .mul(256)
    .add(part(bytes, start, 1))
    .add(exponent.gt(0).to('f32').mul(1024));
  // 2^exponent by the bits of the exponent. Numbers below the normal ones have the last bit of the least normal ones.
  const power = [1, 2, 3, 4].reduce(
    (product, bit) =>
      product.mul(
        fieldOf(high, 2 + bit, 1)
          .mul(2 ** (2 ** bit) - 1)
          .add(1),
      ),
    fieldOf(high, 2, 1).add(1),
  );
  const finite = digits.mul(power.maximum(2)).mul(2 ** -25);
  const others = digits.eq(1024).where(digits.mul(Infinity), digits.mul(NaN));
  return exponent
    .lt(31)
    .where(finite, others)
    .mul(fieldOf(high, 7, 1).mul(-2).add(1));
}

/** Numbers of four bits: of each 32 bytes first the low halves, and then the high ones. Shape: -> [blocks, 8, 32]. */
function quarters(bytes: Tensor, blocks: number, start: number): Tensor {
  const both = part(bytes, start, 128).reshape([blocks, 4, 32]);
  return stack([fieldOf(both, 0, 4), fieldOf(both, 4, 4)], 2).reshape([blocks, 8, 32]);
}

/** (d s) q - (m t) with scales s and t of 6 bits for each 32 elements, of which twelve bytes have eight pairs. */
function scaledParts(bytes: Tensor, blocks: number, numbers: Tensor): Tensor {
  const [first, second, both] = [part(bytes, 4, 4), part(bytes, 8, 4), part(bytes, 12, 4)];
  const pairOf = (own: Tensor, shift: number): Tensor =>
    concat([fieldOf(own, 0, 6), fieldOf(both, shift, 4).add(fieldOf(own, 6, 2).mul(16))], 1);
  const steps = pairOf(first, 0).mul(halfAt(bytes, 0)).reshape([blocks, 8, 1]);
  const shifts = pairOf(second, 4).mul(halfAt(bytes, 2)).reshape([blocks, 8, 1]);
  return numbers.mul(steps).sub(shifts);
}
