import { createHash } from 'node:crypto';
import { manualSeed, type nn } from '@shardwise/core';
import { onRanks } from '@shardwise/testing/node';
import { beforeAll, describe, expect, it } from 'vitest';
import { layoutNames, layouts, ranksOf } from './layout-resharding.ts';
import { Gpt } from './ranks/grid-table.ts';

/** Returns the SHA-256 of names, shapes and contents. */
async function hashOf(model: nn.Module): Promise<string> {
  const hash = createHash('sha256');
  for (const [name, { shape, bytes }] of Object.entries(await model.stateDict())) {
    hash.update(`${name} ${shape.join()}`).update(bytes);
  }
  return hash.digest('hex');
}

const size = 4;
const names = layoutNames.filter((layout) => ranksOf(layout) === size);

describe('the state dict of a model that ranks shard', () => {
  let whole = '';

  beforeAll(async () => {
    [whole = ''] = await onRanks(1, () => {
      manualSeed(0);
      return hashOf(new Gpt());
    });
  });

  it.each(names)(
    'has on every rank the names, shapes and values of an uncut model: %s',
    async (name) => {
      const { axes, prepare } = layouts[name];
      const hashOfPart = async (): Promise<string> => {
        manualSeed(0);
        return hashOf((await prepare(new Gpt())).model);
      };
      for (const hash of await onRanks(size, hashOfPart, { axes })) expect(hash).toBe(whole);
    },
  );
});
