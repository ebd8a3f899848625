import { createThreadsWorld } from '@shardwise/collectives';
import { spawnRanks } from '@shardwise/testing/node';
import { expect, test } from 'vitest';
import { z } from 'zod';
import { found } from './ranks/pipe.ts';

test("GPipe runs PyTorch's example on two ranks, of which each has a layer", async () => {
  const world = createThreadsWorld({ size: 2 });
  const moduleUrl = new URL('./ranks/pipe.ts', import.meta.url);
  const ranks = z.array(found).parse(await spawnRanks(2, moduleUrl, { world }));
  for (const { output, alone } of ranks) {
    expect(output).toHaveLength(64);
    for (const [index, value] of output.entries()) expect(value).toBeCloseTo(alone[index] ?? 0, 5);
  }
  expect(ranks.map(({ held }) => held)).toEqual([
    ['0.weight', '0.bias'],
    ['1.weight', '1.bias'],
  ]);
});
