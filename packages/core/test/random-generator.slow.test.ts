import { expect, test } from 'vitest';
import { Generator } from '../src/random/generator.ts';
import { sha256 } from './golden/random.ts';

// From 214748364 items on, PyTorch permutes with another algorithm. The hashes are of the int32 items of PyTorch 2.15.
test.each([
  [214748363, '5da85a599a78f17c43d5d9bea5a1d40bc8f1b8a9f375080015b6b2804f9cf0e5'],
  [214748364, '91f9eb7f4cb109f654b3f0631c6e3567f9474820a426505c77369277118c2170'],
])('randperm(%d) of seed 1 is PyTorch’s', (length, hash) => {
  expect(sha256(new Generator(1).randperm(length))).toBe(`sha256 ${hash}`);
});
