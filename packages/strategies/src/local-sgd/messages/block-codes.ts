import {
  BLOCK_ELEMENTS,
  codeOffsets,
  largestCodes,
  type QuantizedBits,
  quantizedBytes,
  SCALE_BYTES,
  SMALLEST_MAGNITUDE,
} from '../../sharded/quantized/quantize-rows.ts';

/** Added to a number and subtracted again, it leaves the nearest whole number, and the even one of two. */
const ROUNDING = 1.5 * 2 ** 52;

/**
 * Writes values as codes of few bits: the scales of blocks of 256 elements as f32, and then the codes. It is the row of
 * `quantizeRows`, computed on the host. A block with a value that is not finite has no finite value afterwards.
 * Shape: values [n] -> bytes [quantizedBytes(n)].
 */
export function encodeBlocks(values: Float32Array, bits: QuantizedBits): Uint8Array {
  const message = new Uint8Array(quantizedBytes(values.length, bits));
  const blocks = Math.ceil(values.length / BLOCK_ELEMENTS);
  const scales = new Float32Array(message.buffer, 0, blocks);
  const codes = message.subarray(blocks * SCALE_BYTES);
  for (let block = 0; block < blocks; block++) {
    const first = block * BLOCK_ELEMENTS;
    const stop = Math.min(first + BLOCK_ELEMENTS, values.length);
    let largest = 0;
    for (let at = first; at < stop; at++) largest = Math.max(largest, Math.abs(values[at] ?? 0));
    const scale = Math.fround(
      (largest < SMALLEST_MAGNITUDE ? SMALLEST_MAGNITUDE : largest) / largestCodes[bits],
    );
    scales[block] = scale;
    for (let at = first; at < stop; at++) {
      const step = Number.isFinite(scale) ? Math.fround((values[at] ?? 0) / scale) : 1;
      const code = step + ROUNDING - ROUNDING + codeOffsets[bits];
      if (bits === 8) codes[at] = code;
      else codes[at >> 1] = (codes[at >> 1] ?? 0) | (at % 2 === 0 ? code : code << 4);
    }
  }
  return message;
}

/** Makes values of a message of `encodeBlocks` again. Shape: bytes [quantizedBytes(n)] -> [n], where n is `elements`. */
export function decodeBlocks(
  message: Uint8Array,
  elements: number,
  bits: QuantizedBits,
): Float32Array {
  const blocks = Math.ceil(elements / BLOCK_ELEMENTS);
  // A message may begin anywhere in a buffer of several, and floats only at multiples of four.
  const scales = new Float32Array(message.slice(0, blocks * SCALE_BYTES).buffer);
  const codes = message.subarray(blocks * SCALE_BYTES);
  const values = new Float32Array(elements);
  for (let at = 0; at < elements; at++) {
    const code =
      bits === 8 ? (codes[at] ?? 0) : ((codes[at >> 1] ?? 0) >> (at % 2 === 0 ? 0 : 4)) & 15;
    values[at] = (code - codeOffsets[bits]) * (scales[Math.floor(at / BLOCK_ELEMENTS)] ?? 0);
  }
  return values;
}
