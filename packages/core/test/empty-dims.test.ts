import { interpreter } from '@shardwise/testing';
import { expect, test } from 'vitest';
import { setRank } from '../src/rank.ts';
import { zeros } from '../src/tensor/create.ts';

test('an empty dim has as many chunks as any other, as in PyTorch', () => {
  setRank({ device: interpreter() });
  const parts = zeros([2, 0]).chunk(3, 1);
  expect(parts.map(({ shape }) => shape)).toEqual([
    [2, 0],
    [2, 0],
    [2, 0],
  ]);
});
