import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { allReduce, fromData, manualSeed, nn, type PageStore } from '@shardwise/core';
import { filePages } from '@shardwise/core/node';
import { onRanks } from '@shardwise/testing/node';
import { expect, test } from 'vitest';

/** The gradient of a weight on each rank after two microbatches, of whose losses each is read before the gradient. */
async function gradientOfTwo(pagesOf: () => Promise<PageStore | null>) {
  return onRanks(2, async ({ rank }) => {
    manualSeed(3);
    const layer = new nn.Linear(16, 16, { bias: false });
    const pages = await pagesOf();
    const losses = [];
    for (const microbatch of [1, 2]) {
      const numbers = Float32Array.from({ length: 64 * 16 }, (_, i) =>
        Math.sin(microbatch * i + rank),
      );
      const x = fromData(numbers, [64, 16], 'f32');
      const forward = () => allReduce(layer.forward(x), 'dp').tanh();
      const made = pages
        ? nn.checkpoint(forward, { policy: nn.offloadProducts, pages })
        : forward();
      const loss = made.square().mean();
      await loss.item();
      losses.push(loss);
    }
    for (const loss of losses) loss.backward();
    return Array.from((await layer.weight.grad?.data()) ?? [], Number);
  });
}

test('a page that outlives its run is not replaced by the one of the next run', async () => {
  const directory = await mkdtemp(join(tmpdir(), 'shardwise-kept-'));
  try {
    const paged = await gradientOfTwo(() => filePages(directory));
    expect(paged).toEqual(await gradientOfTwo(async () => null));
  } finally {
    await rm(directory, { recursive: true, force: true });
  }
});
