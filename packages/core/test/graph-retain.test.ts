import { interpreter } from '@shardwise/testing';
import { beforeEach, describe, expect, it } from 'vitest';
import { setRank } from '../src/rank.ts';
import { tensor } from '../src/tensor/create.ts';

beforeEach(() => setRank({ device: interpreter() }));

describe('a metric written before an update', () => {
  it('is read after it when retained, with the value from before', async () => {
    const weight = tensor([1, 2, 3]).makeResident();
    const norm = weight.square().sum().retain();
    weight.assign(weight.mul(2));
    await weight.realize();
    expect(await norm.item()).toBe(14);
    expect([...(await weight.data())]).toEqual([2, 4, 6]);
  });

  it('is refused when it was not retained, and the error says how', async () => {
    const weight = tensor([1, 2, 3]).makeResident();
    const norm = weight.square().sum();
    weight.assign(weight.mul(2));
    await weight.realize();
    await expect(norm.item()).rejects.toThrow(/updated in place .* Call retain\(\)/s);
  });
});
