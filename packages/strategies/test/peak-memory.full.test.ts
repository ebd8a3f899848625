import { createThreadsWorld } from '@shardwise/collectives';
import { spawnRanks } from '@shardwise/testing/node';
import { beforeAll, describe, expect, it } from 'vitest';
import { z } from 'zod';
import { batch, layers, memories, strategies } from './ranks/peak-memory.ts';
import { testMs, trainingMs } from './time-limits.ts';

const size = 4;
const width = 512;
/** Ψ of the papers for one layer, in bytes of f32. */
const layerBytes = (width * width + width) * Float32Array.BYTES_PER_ELEMENT;
const modelBytes = layers * layerBytes;
const activationBytes = (layers + 1) * batch * width * Float32Array.BYTES_PER_ELEMENT;

/** The memory of parameters, gradients and two moments on one rank, in multiples of the model's size. */
const statesOf: Readonly<Record<string, number>> = {
  DDP: 4,
  'ZeRO-1': 2 + 2 / size,
  'ZeRO-2': 1 + 3 / size,
  'ZeRO-3': 4 / size,
  FSDP: 4 / size,
  'FSDP bf16': 4 / size,
};

describe(`memory of ${size} ranks`, () => {
  let ranks: readonly z.infer<typeof memories>[] = [];

  beforeAll(async () => {
    const found = await spawnRanks(size, new URL('./ranks/peak-memory.ts', import.meta.url), {
      world: createThreadsWorld({ size, arenaBytes: 6 * modelBytes }),
      data: { width },
      timeoutMs: trainingMs,
    });
    ranks = z.array(memories).length(size).parse(found);
  }, testMs);

  it.each(Object.keys(strategies))('%s keeps the states of the papers', (name) => {
    const expected = (statesOf[name] ?? NaN) * modelBytes;
    for (const rank of ranks) {
      expect(Math.abs((rank[name]?.statesBytes ?? NaN) / expected - 1)).toBeLessThan(0.01);
    }
  });

  it.each(Object.keys(strategies))(
    '%s never has more than 1.2 times its states, activations and one layer',
    (name) => {
      const bytes = (statesOf[name] ?? NaN) * modelBytes + activationBytes + layerBytes;
      for (const rank of ranks) expect((rank[name]?.peakBytes ?? NaN) / bytes).toBeLessThan(1.2);
    },
  );

  it('ZeRO-2 never has even half of the gradients at once', () => {
    const kept = (1 + 2 / size) * modelBytes;
    for (const rank of ranks) {
      expect((rank['ZeRO-2']?.peakBytes ?? NaN) - kept).toBeLessThan(modelBytes / 2);
    }
  });
});
