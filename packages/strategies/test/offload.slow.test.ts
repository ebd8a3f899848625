import { mkdtemp, rm, statfs } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createThreadsWorld } from '@shardwise/collectives';
import { spawnRanks } from '@shardwise/testing';
import { expect, it } from 'vitest';
import { z } from 'zod';
import { type Options, results } from './ranks/offload.ts';

const size = 2;
const layers = 20;
const width = 4096;
/** Of this rank's parts: parameters, gradients, two moments. */
const partBytes = (layers * (width * width + width) * Float32Array.BYTES_PER_ELEMENT) / size;
const statesBytes = 4 * partBytes;
const arenaBytes = 1.5 * 1024 ** 3;

it('trains a model from disk whose states are twice as large as the memory of its ranks', async () => {
  expect(statesBytes).toBeGreaterThan(1.6 * arenaBytes);
  const directory = await mkdtemp(join(tmpdir(), 'shardwise-offload-'));
  try {
    const { bavail, bsize } = await statfs(directory);
    expect(bavail * bsize).toBeGreaterThan(2 * size * statesBytes);
    const data: Options = { directory, layers, width, kinds: ['disk'], earlierPasses: [] };
    const found = await spawnRanks(size, new URL('./ranks/offload.ts', import.meta.url), {
      world: createThreadsWorld({ size, arenaBytes }),
      data,
      timeoutMs: 1_800_000,
    });
    const ranks = z.array(results).length(size).parse(found);
    for (const { disk } of ranks) {
      const [first = NaN, , third = NaN] = disk?.losses ?? [];
      expect(third).toBeLessThan(first);
      expect(disk?.peakBytes).toBeLessThan(arenaBytes);
    }
  } finally {
    await rm(directory, { recursive: true, force: true });
  }
}, 1_900_000);
