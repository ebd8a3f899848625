import { readFileSync } from 'node:fs';
import { cpu } from '@shardwise/backend-cpu';
import { fromData, setRank } from '@shardwise/core';
import { interpreter } from '@shardwise/testing';
import { beforeAll, describe, expect, it } from 'vitest';
import { z } from 'zod';

const cast = z.object({ low: z.string(), back: z.string() });

/** The values that tools/golden-casts.py recorded. */
const golden = z
  .object({ torch: z.string(), f32: z.string(), f16: cast, bf16: cast })
  .parse(JSON.parse(readFileSync(new URL('./golden/casts.json', import.meta.url), 'utf8')));

const bits = Uint32Array.from(golden.f32.split(' '), (word) => Number.parseInt(word, 16));

/** Returns the bits in hexadecimal, or nan. */
function text(raw: Iterable<number>, digits: number, isNaN: (raw: number) => boolean): string {
  return Array.from(raw, (each) =>
    isNaN(each) ? 'nan' : each.toString(16).padStart(digits, '0'),
  ).join(' ');
}

const isNaNOf = {
  f16: (raw: number) => (raw & 0x7fff) > 0x7c00,
  bf16: (raw: number) => (raw & 0x7fff) > 0x7f80,
  f32: (raw: number) => (raw & 0x7fffffff) > 0x7f800000,
};

describe.each([
  ['the CPU backend', () => cpu()],
  ['the interpreter', () => Promise.resolve(interpreter())],
] as const)('%s', (_, make) => {
  beforeAll(async () => setRank({ device: await make() }));

  it.each(['f16', 'bf16'] as const)('rounds f32 to %s as PyTorch, and back', async (dtype) => {
    const low = fromData(new Float32Array(bits.slice().buffer), [bits.length], 'f32').to(dtype);
    const back = low.to('f32');
    const lowBits = await low.data();
    const backData = await back.data();
    if (!(lowBits instanceof Uint16Array)) throw new TypeError('16-bit values are expected');
    expect(text(lowBits, 4, isNaNOf[dtype])).toBe(golden[dtype].low);
    const { buffer, byteOffset, length } = backData;
    expect(text(new Uint32Array(buffer, byteOffset, length), 8, isNaNOf.f32)).toBe(
      golden[dtype].back,
    );
  });

  it('adds and multiplies values of 16 bits in f32, and rounds the result', async () => {
    const two = fromData(Uint16Array.of(0x4000, 0x3f80), [2], 'bf16');
    // 2 + 2^-7 is halfway between the bf16 values 2 and 2 + 2^-6. The 2 is even.
    const small = fromData(Uint16Array.of(0x3c00, 0x3c00), [2], 'bf16');
    expect(await two.add(small).data()).toEqual(Uint16Array.of(0x4000, 0x3f81));
    expect(await two.matmul(two).data()).toEqual(Uint16Array.of(0x40a0));
  });
});
