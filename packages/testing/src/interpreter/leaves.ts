import type { Definitions } from './definition.ts';
import { at } from './nd-array.ts';

export const leaves: Definitions<'constant' | 'iota' | 'random'> = {
  constant: ({ value }, out) => out.values.fill(value),
  iota: ({ dim }, out) => {
    for (const index of out.indices()) out.set(index, at(index, dim));
  },
  random: (_params, out, key) => {
    const [key0, key1] = [at(key.values, 0), at(key.values, 1)];
    for (let i = 0; i < out.values.length; i++) out.values[i] = randomBits(key0, key1, i);
  },
};

/** Returns the bits that the spec of `random` defines, as a signed i32. */
export function randomBits(key0: number, key1: number, index: number): number {
  const x = mix(Math.imul(index, 0x9e3779b9) + key0, [16, 0x85ebca6b, 13, 0xc2b2ae35, 16]);
  return mix(x + key1, [16, 0x7feb352d, 15, 0x846ca68b, 16]);
}

type Mixing = readonly [
  shift0: number,
  factor0: number,
  shift1: number,
  factor1: number,
  shift2: number,
];

function mix(seed: number, [shift0, factor0, shift1, factor1, shift2]: Mixing): number {
  let x = seed | 0;
  x = Math.imul(x ^ (x >>> shift0), factor0);
  x = Math.imul(x ^ (x >>> shift1), factor1);
  return x ^ (x >>> shift2);
}
