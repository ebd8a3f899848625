import { cpu } from '@shardwise/backend-cpu';
import { createThreadsWorld } from '@shardwise/collectives';
import { spawnRanks } from '@shardwise/testing/node';
import { beforeAll, describe, expect, it } from 'vitest';
import { z } from 'zod';
import { layerBytes, sizes, type variants } from './ranks/activation-memory.ts';
import { testMs, trainingMs } from './time-limits.ts';

const size = 2;

/**
 * Returns the elements of a layer's activations by the list of Korthikanti et al. 2022, without dropout: 16 sbh + as²b.
 * The inputs of the two norms and of the first two products, 4 sbh, are whole without sequence parallelism. With it, 2
 * sbh of them are whole if the layer keeps what it gathers. On a device that computes attention without storing the
 * scores, backward reads the result, sbh, and one number for each query, asb, instead of as²b. On other devices, if
 * backward gathers something again, it also computes the scores again after that.
 */
function elementsOf(variant: keyof typeof variants, makesScores: boolean): number {
  const { tokens, batch, channels, heads } = sizes;
  const sbh = tokens * batch * channels;
  const asb = heads * tokens * batch;
  const scores = variant === 'sequence parallelism that gathers again' ? 0 : tokens * asb;
  const attention = makesScores ? scores : sbh + asb;
  const whole = {
    'tensor parallelism': 4,
    'sequence parallelism': 2,
    'sequence parallelism that gathers again': 0,
  }[variant];
  return whole * sbh + ((16 - whole) * sbh + attention) / size;
}

describe(`activations of a transformer layer on ${size} ranks`, () => {
  let ranks: readonly z.infer<typeof layerBytes>[] = [];
  let makesScores = false;

  beforeAll(async () => {
    makesScores = !(await cpu({ byteLength: 1 << 20 })).limits.native.has('attention');
    const found = await spawnRanks(size, new URL('./ranks/activation-memory.ts', import.meta.url), {
      world: createThreadsWorld({ size, arenaBytes: 32 * 1024 * 1024 }),
      timeoutMs: trainingMs,
    });
    ranks = z.array(layerBytes).length(size).parse(found);
  }, testMs);

  it.each<keyof typeof variants>([
    'tensor parallelism',
    'sequence parallelism',
    'sequence parallelism that gathers again',
  ])('take the memory of the paper, with %s', (variant) => {
    const bytes = elementsOf(variant, makesScores) * Float32Array.BYTES_PER_ELEMENT;
    for (const rank of ranks) {
      expect(Math.abs((rank[variant] ?? NaN) / bytes - 1), `${rank[variant]}`).toBeLessThan(0.02);
    }
  });
});
