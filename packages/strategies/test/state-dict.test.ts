import { manualSeed } from '@shardwise/core';
import { onRanks } from '@shardwise/testing/node';
import { expect, it } from 'vitest';
import { hashOf } from '../../../test/support/model-values.ts';
import { oncePerKey } from './as-one-rank.ts';
import { layoutNames, layouts, ranksOf } from './layout-resharding.ts';
import { Gpt } from './ranks/grid-table.ts';

const size = 4;
const names = layoutNames.filter((layout) => ranksOf(layout) === size);

const whole = oncePerKey(() => {
  manualSeed(0);
  return hashOf(new Gpt());
});

it.each(names)(
  'the state dict of a model that ranks shard has on every rank the names, shapes and values of an uncut model: %s',
  async (name) => {
    const { axes, prepare } = layouts[name];
    const hashOfPart = async (): Promise<string> => {
      manualSeed(0);
      return hashOf((await prepare(new Gpt())).model);
    };
    const expected = await whole(null);
    for (const hash of await onRanks(size, hashOfPart, { axes })) expect(hash).toBe(expected);
  },
);
