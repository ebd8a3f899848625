import type { Backend, Program } from '@shardwise/core/spec';
import { nn, noGrad, randn, setRank } from '@shardwise/core';
import { interpreter } from '@shardwise/testing';
import { describe, expect, it } from 'vitest';
import { planKernels } from '../src/plan/plan-kernels.ts';
import { leastTraits } from '../src/kernels/device-traits.ts';
import { limits } from '../src/device/limits.ts';

/** A device that computes nothing and reports the kernels that a program would run. */
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

const shapes: readonly {
  readonly shape: readonly [number, number, number];
  readonly most: number[];
}[] = [
  // With so few tokens, the second layer has few elements, each with many terms. Its product is computed in parts.
  { shape: [2, 16, 64], most: [8, 27] },
  // The gradients of weights have many terms.
  { shape: [4, 512, 128], most: [7, 28] },
  { shape: [2, 512, 384], most: [7, 27] },
];

describe('dispatches of a block of a transformer', () => {
  it.each(shapes)(
    'are at most $most, forward and backward, for inputs of $shape',
    async ({ shape, most }) => {
      const kernels: string[] = [];
      setRank({ device: planningDevice((labels) => kernels.push(...labels)) });
      const [, , width] = shape;
      const block = new nn.TransformerEncoderLayer(width, 4, {
        normFirst: true,
        dropout: 0,
        activation: 'gelu',
      });
      const x = randn(shape).requiresGrad_();
      await Promise.all([x, ...block.parameters()].map((leaf) => leaf.realize()));
      kernels.length = 0;
      await noGrad(() => block.forward(x)).realize();
      const forward = kernels.splice(0).length;
      block.forward(x).sum().backward();
      const leaves = [x, ...block.parameters()];
      await Promise.all(leaves.flatMap(({ grad }) => (grad ? [grad.realize()] : [])));
      expect(forward).toBeLessThanOrEqual(most[0] ?? 0);
      expect(kernels.length - forward).toBeLessThanOrEqual(most[1] ?? 0);
    },
  );
});
