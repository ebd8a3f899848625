import { createThreadsWorld } from '@shardwise/collectives';
import { nn, setRank } from '@shardwise/core';
import { memory } from '@shardwise/strategies';
import { interpreter } from '@shardwise/testing';
import { spawnRanks } from '@shardwise/testing/node';
import { beforeAll, describe, expect, it } from 'vitest';
import { z } from 'zod';
import { observations, strategies } from './ranks/memory.ts';
import { testMs, trainingMs } from './time-limits.ts';

const size = 2;
/** The bytes of one model in f32, with two matrices of 64 by 64. */
const modelBytes = 2 * 64 * 64 * Float32Array.BYTES_PER_ELEMENT;

/** The memory of parameters, gradients and Adam's moments on one rank, in multiples of the model's size. */
const expected: Readonly<Record<string, readonly [number, number, number]>> = {
  DDP: [1, 1, 2],
  'DDP with a ZeroRedundancyOptimizer': [1, 1, 1],
  'ZeRO-1': [1, 1, 1],
  'ZeRO-2': [1, 0.5, 1],
  'ZeRO-3': [0.5, 0.5, 1],
  FSDP: [0.5, 0.5, 1],
  // The optimizer also keeps an f32 copy of the parameters.
  'ZeRO-1 in 16 bits': [0.5, 0.5, 1.5],
  'ZeRO-2 in 16 bits': [0.5, 0.25, 1.5],
  'ZeRO-3 in 16 bits': [0.25, 0.25, 1.5],
  'FSDP in 16 bits, gradients in 32': [0.25, 0.5, 1.5],
};

describe('memory() on two ranks', () => {
  let ranks: readonly z.infer<typeof observations>[] = [];

  beforeAll(async () => {
    const found = await spawnRanks(size, new URL('./ranks/memory.ts', import.meta.url), {
      world: createThreadsWorld({ size, arenaBytes: 8 * 1024 * 1024 }),
      timeoutMs: trainingMs,
    });
    ranks = z.array(observations).length(size).parse(found);
  }, testMs);

  describe.each(Object.keys(strategies))('with %s', (name) => {
    const [parameters, gradients, optimizer] = expected[name] ?? [];

    it('tells parameters, gradients, optimizer states and buffers apart', () => {
      for (const rank of ranks) {
        expect(rank[name]?.afterStep).toMatchObject({
          parameterBytes: (parameters ?? NaN) * modelBytes,
          gradientBytes: (gradients ?? NaN) * modelBytes,
          optimizerBytes: (optimizer ?? NaN) * modelBytes,
          bufferBytes: 64 * Float32Array.BYTES_PER_ELEMENT,
          hostBytes: 0,
        });
      }
    });

    it('is what the plan says', () => {
      if (name.includes('Redundancy')) return;
      for (const rank of ranks) {
        const { planned } = rank[name] ?? {};
        expect(rank[name]?.afterStep).toMatchObject({
          parameterBytes: planned?.parameterBytes,
          gradientBytes: planned?.gradientBytes,
          optimizerBytes: planned?.optimizerBytes,
          bufferBytes: planned?.bufferBytes,
        });
      }
    });

    it('adds up to what the allocator has handed out', () => {
      for (const rank of ranks) {
        const { afterStep: use, afterZeroGrad } = rank[name] ?? {};
        if (use === undefined || afterZeroGrad === undefined) throw new RangeError(name);
        const { parameterBytes, gradientBytes, optimizerBytes, bufferBytes, otherBytes } = use;
        expect(parameterBytes + gradientBytes + optimizerBytes + bufferBytes + otherBytes).toBe(
          use.bytesInUse,
        );
        expect(otherBytes).toBeGreaterThanOrEqual(0);
        expect(use.peakBytes).toBeGreaterThanOrEqual(use.bytesInUse);
        expect(afterZeroGrad.gradientBytes).toBe(0);
        expect(use.bytesInUse - afterZeroGrad.bytesInUse).toBe(gradientBytes);
      }
    });
  });
});

describe('memory() of a device that does not count', () => {
  it('memory() of a device that does not count tells the states alone', () => {
    setRank({ device: interpreter() });
    const model = new nn.Linear(3, 2);
    expect(memory({ model })).toEqual({
      parameterBytes: 0,
      gradientBytes: 0,
      optimizerBytes: 0,
      bufferBytes: 0,
      // No computation has used the tensors yet, so they are still in host memory.
      hostBytes: (3 * 2 + 2) * Float32Array.BYTES_PER_ELEMENT,
      otherBytes: null,
      bytesInUse: null,
      peakBytes: null,
    });
  });
});
