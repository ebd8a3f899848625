import { codecOf, type DecodedFormat, full } from '@shardwise/core/extend';
import { at } from '../../../interpreter/nd-array.ts';
import { f32, hostValue, integers } from '../host-value.ts';
import type { OpCase } from '../op-case.ts';
import { bytes, type OpExample, varied } from '../op-example.ts';

const [ELEMENTS, BYTES] = [32, 34];

/** A scale of f16, and 32 numbers from -128 to 127. Here, scales are powers of 2. */
const format: DecodedFormat = {
  name: 'Q8_0',
  elements: ELEMENTS,
  bytes: BYTES,
  decode: (stored) => {
    const all = stored.to('f32');
    const exponent = all.slice(1, 1, 2).div(4).sub(15);
    const whole = all.slice(1, 2, BYTES);
    const signed = whole.sub(whole.gt(127).to('f32').mul(256));
    return signed.mul(full(exponent.shape, 2).pow(exponent));
  },
};

/** The byte at `index` of blocks. The exponents of their scales are from -2 to 1. */
function byteAt(index: number): number {
  const [block, place] = [Math.floor(index / BYTES), index % BYTES];
  if (place === 0) return 0;
  return place === 1 ? 4 * (13 + (block % 4)) : (index * 151) % 256;
}

function bytesOf(blocks: number): number[] {
  return Array.from({ length: blocks * BYTES }, (_, index) => byteAt(index));
}

/** The element at `index` of what the blocks are decoded to. */
function elementAt(index: number): number {
  const [block, place] = [Math.floor(index / ELEMENTS), index % ELEMENTS];
  const byte = byteAt(block * BYTES + 2 + place);
  return (byte > 127 ? byte - 256 : byte) * 2 ** ((block % 4) - 2);
}

export const blockedExample: OpExample<'blockedLinear'> = {
  params: { format: codecOf(format) },
  inputs: [varied([2, ELEMENTS]), bytes([2, BYTES], bytesOf(2))],
};

const sizes = [
  { rows: 1, depth: 32, columns: 1 },
  { rows: 1, depth: 64, columns: 33 },
  { rows: 5, depth: 1056, columns: 16 },
  { rows: 40, depth: 96, columns: 70 },
] as const;

/** Products of whole numbers, whose sums are exact in any order. */
export function blockedCases(): readonly OpCase[] {
  return sizes.map(({ rows, depth, columns }) => {
    const x = integers([rows, depth], 1);
    const blocks = (columns * depth) / ELEMENTS;
    const elements = Array.from({ length: rows * columns }, (_, index) => {
      const [row, column] = [Math.floor(index / columns), index % columns];
      let sum = 0;
      for (let k = 0; k < depth; k++) {
        sum += at(x.values, row * depth + k) * elementAt(column * depth + k);
      }
      return sum;
    });
    return {
      title: `${rows} rows of ${depth} elements, ${columns} columns`,
      operation: { op: 'blockedLinear', params: { format: codecOf(format) } },
      inputs: [x, hostValue([columns, (blocks / columns) * BYTES], 'u8', bytesOf(blocks))],
      expected: f32([rows, columns], elements),
    };
  });
}
