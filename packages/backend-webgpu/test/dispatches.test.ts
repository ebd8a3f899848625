import type { Backend, Program } from '@shardwise/core/spec';
import { nn, noGrad, randn, setRank } from '@shardwise/core';
import { interpreter } from '@shardwise/testing';
import { describe, expect, it } from 'vitest';
import { planKernels } from '../src/compile/plan-kernels.ts';
import { leastTraits } from '../src/compile/device-traits.ts';
import { limits } from '../src/limits.ts';

/** A device that computes nothing, and tells which kernels a program would take. */
function planningDevice(onKernels: (labels: readonly string[]) => void): Backend {
  return {
    ...interpreter(),
    limits,
    compile: async (program: Program) => {
      onKernels(
        planKernels(program, { ...leastTraits, mostBuffers: 10 }).kernels.map(({ label }) => label),
      );
      return { run: async () => undefined, dispose: () => undefined };
    },
  };
}

describe('dispatches', () => {
  it('of a block of a transformer are at most 7 forward, and 27 backward', async () => {
    const kernels: string[] = [];
    setRank({ device: planningDevice((labels) => kernels.push(...labels)) });
    const block = new nn.TransformerEncoderLayer(64, 4, {
      normFirst: true,
      dropout: 0,
      activation: 'gelu',
    });
    const x = randn([2, 16, 64]).requiresGrad_();
    await Promise.all([x, ...block.parameters()].map((leaf) => leaf.realize()));
    kernels.length = 0;
    await noGrad(() => block.forward(x)).realize();
    const forward = kernels.splice(0).length;
    block.forward(x).sum().backward();
    const leaves = [x, ...block.parameters()];
    await Promise.all(leaves.flatMap(({ grad }) => (grad ? [grad.realize()] : [])));
    expect(forward).toBeLessThanOrEqual(7);
    expect(kernels.length - forward).toBeLessThanOrEqual(27);
  });
});
