import { DTypeError, fromData, stack } from '@shardwise/core/extend';
import { type BlockFormat, fieldOf } from './block-format.ts';

/** How the elements of a block become bytes. A block is divided by its largest magnitude before, which is kept apart. */
export interface ScaledFormat extends BlockFormat {
  readonly bits: 4 | 8;
  /** Writes the bytes of block number `block`, from and to arrays of all blocks. Elements behind the end of `values` are 0. */
  readonly encode: (values: Float32Array, block: number, scale: number, target: Uint8Array) => void;
}

/** A weight in blocks, and what each block was divided by. */
export interface ScaledBlocks {
  /** Shape: [blocks * bytes]. */
  readonly bytes: Uint8Array<ArrayBuffer>;
  /** Shape: [blocks]. */
  readonly scales: Float32Array<ArrayBuffer>;
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

/** The numbers halfway between two neighbours of NF4. */
const midpoints = Float32Array.from(
  nf4.subarray(1),
  (high, index) => ((nf4[index] ?? 0) + high) / 2,
);

const BINS = 1024;

/** For each bin of [-1, 1], the number of midpoints below it. */
const below = Uint8Array.from(
  { length: BINS + 1 },
  (_, bin) => midpoints.filter((midpoint) => midpoint < (bin * 2) / BINS - 1).length,
);

/** The place of the number of NF4 that is nearest: the number of midpoints below the value. */
function codeOf(value: number): number {
  let code = below[Math.floor((value + 1) * (BINS / 2))] ?? 0;
  while (value > (midpoints[code] ?? Infinity)) code++;
  return code;
}

/** Four bits for each element, the first of two in the high bits of a byte. The nearest number of NF4 is taken. */
const nf4Format: ScaledFormat = {
  name: 'nf4',
  bits: 4,
  elements: BLOCK_ELEMENTS,
  bytes: BLOCK_ELEMENTS / 2,
  encode: (values, block, scale, target) => {
    const end = ((block + 1) * BLOCK_ELEMENTS) / 2;
    for (let byte = (block * BLOCK_ELEMENTS) / 2; byte < end; byte++) {
      const high = codeOf(Math.fround((values[2 * byte] ?? 0) / scale));
      const low = codeOf(Math.fround((values[2 * byte + 1] ?? 0) / scale));
      target[byte] = high * 16 + low;
    }
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

/** What a number of f32 below 2^22 is added to, and taken from again, to round it: half goes to even. */
const ROUNDER = 1.5 * 2 ** 23;

/** A whole number from -127 to 127 for each element, plus 128. */
const int8Format: ScaledFormat = {
  name: 'int8',
  bits: 8,
  elements: BLOCK_ELEMENTS,
  bytes: BLOCK_ELEMENTS,
  encode: (values, block, scale, target) => {
    const end = (block + 1) * BLOCK_ELEMENTS;
    for (let at = block * BLOCK_ELEMENTS; at < end; at++) {
      const exact = Math.fround(Math.fround((values[at] ?? 0) / scale) * 127);
      target[at] = Math.fround(exact + ROUNDER) - ROUNDER + 128;
    }
  },
  decode: (bytes) => bytes.to('f32').sub(128).div(127),
};

/** The formats that this package encodes, by their bits. */
export const scaledFormats: Readonly<Record<4 | 8, ScaledFormat>> = { 4: nf4Format, 8: int8Format };

/** Returns the format that a layer has of those that this package encodes. */
export function scaledFormatOf({ name }: BlockFormat): ScaledFormat | undefined {
  return Object.values(scaledFormats).find((format) => format.name === name);
}

/**
 * Quantizes elements in blocks; zeros fill up the last one. Throws DTypeError, which names the weight, for a number that is
 * not finite, beside which all others of its block would become 0. Shape: values f32 [N].
 */
export function quantizeBlocks(
  format: ScaledFormat,
  values: Float32Array,
  name: string,
): ScaledBlocks {
  const { elements, bytes: blockBytes } = format;
  const blocks = Math.ceil(values.length / elements);
  const bytes = new Uint8Array(blocks * blockBytes);
  const scales = new Float32Array(blocks);
  for (let block = 0; block < blocks; block++) {
    let largest = 0;
    const end = Math.min(values.length, (block + 1) * elements);
    for (let at = block * elements; at < end; at++) {
      const magnitude = Math.abs(values[at] ?? 0);
      if (!(magnitude < Infinity)) throw infiniteError(format, name, magnitude);
      if (magnitude > largest) largest = magnitude;
    }
    const scale = largest === 0 ? 1 : largest;
    scales[block] = scale;
    format.encode(values, block, scale, bytes);
  }
  return { bytes, scales };
}

function infiniteError({ bits }: ScaledFormat, name: string, value: number): DTypeError {
  return new DTypeError(
    {
      asked: `'${name}' in blocks of ${bits} bits`,
      found: `a number that is ${Number.isNaN(value) ? 'NaN' : 'infinite'}`,
      todo: 'Use weights of finite numbers, or leave the layer out of targetModules',
    },
    { name, bits },
  );
}
