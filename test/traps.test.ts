// What a user can get wrong without a word. Each of these once gave wrong numbers, lost work or told nothing;
// each is right now, or an error that says what to do.
import { singleGroup } from '@shardwise/collectives';
import { ddp, parallelize } from '@shardwise/strategies';
import { interpreter } from '@shardwise/testing';
import * as sw from '@shardwise/core';
import { beforeEach, describe, expect, it } from 'vitest';

beforeEach(() => sw.setRank({ device: interpreter() }));

describe('gradients', () => {
  it('noGrad with an async body is refused: it would end at the first await', async () => {
    const x = sw.tensor([1, 2]).requiresGrad_();
    const body = async (): Promise<number> => x.square().sum().item();
    expect(() => sw.noGrad(body)).toThrow(/noGrad with a body that returns a promise.*await/s);
    expect(x.mul(2).requiresGrad).toBe(true);
  });
});

// --- numbers

// --- modules and options

// --- optimizers

describe('strategies', () => {
  it('noSync with an async body is refused: ranks would communicate', async () => {
    sw.setRank({ device: interpreter(), mesh: new sw.LineMesh('dp', singleGroup()) });
    const model = await parallelize(new sw.Linear(2, 1), ddp());
    const body = async (): Promise<number> =>
      model
        .forward(sw.ones([1, 2]))
        .sum()
        .item();
    expect(() => model.noSync(body)).toThrow(/noSync with a body that returns a promise/);
  });
});

// --- runs and data
