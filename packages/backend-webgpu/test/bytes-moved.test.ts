import type { Backend, Program } from '@shardwise/core/spec';
import { nn, optim, rand, setRank, type Tensor } from '@shardwise/core';
import { interpreter } from '@shardwise/testing';
import { beforeEach, describe, expect, it } from 'vitest';
import { leastTraits } from '../src/kernels/device-traits.ts';
import { planKernels } from '../src/plan/plan-kernels.ts';
import { limits } from '../src/device/limits.ts';
import { wordsOf } from '../src/program/values.ts';

/**
 * Counts the words that the kernels of some programs read and write. `least` counts only the programs' inputs and
 * outputs, which have to be moved.
 */
interface Moved {
  kernels: number;
  words: number;
  least: number;
}

describe('words that fused kernels move', () => {
  const moved: Moved = { kernels: 0, words: 0, least: 0 };
  const device: Backend = {
    ...interpreter(),
    limits,
    compile: async (program: Program) => {
      const { values, kernels } = planKernels(program, { ...leastTraits, mostBuffers: 10 });
      const count = (ids: Iterable<number>): number =>
        [...ids].reduce((sum, id) => sum + wordsOf(values, id), 0);
      const read = new Set(program.instructions.flatMap(({ inputs }) => inputs));
      const given = program.inputs.flatMap((_, id) => (read.has(id) ? [id] : []));
      moved.kernels += kernels.length;
      moved.words += kernels.reduce(
        (sum, { reads, writes }) => sum + count([...reads, ...writes]),
        0,
      );
      moved.least += count([
        ...given,
        ...program.outputs,
        ...program.updates.map(({ target }) => target),
      ]);
      return { run: async () => undefined, dispose: () => undefined };
    },
  };
  const measure = async (run: () => Promise<unknown>): Promise<Moved> => {
    Object.assign(moved, { kernels: 0, words: 0, least: 0 });
    await run();
    return { ...moved };
  };
  const leaf = async (...shape: number[]): Promise<Tensor> => {
    const value = rand(shape).requiresGrad_();
    await value.realize();
    return value;
  };

  beforeEach(() => setRank({ device }));

  it('are those of its parameter, gradient and states for an update of AdamW, in one kernel a parameter', async () => {
    const parameter = new nn.Parameter(new Float32Array(4096), [64, 64]);
    const optimizer = new optim.AdamW([parameter]);
    parameter.square().sum().backward();
    await parameter.grad?.realize();
    const { kernels, words, least } = await measure(() => optimizer.step());
    expect(kernels).toBe(1);
    // The step reads four tensors and writes three.
    expect(least).toBeGreaterThanOrEqual(7 * 4096);
    expect(words / least).toBeLessThanOrEqual(1.1);
  });

  const chains: readonly [name: string, build: () => Promise<() => Tensor>][] = [
    [
      'bias, activation and residual',
      async () => {
        const [x, bias, y] = [await leaf(32, 256), await leaf(256), await leaf(32, 256)];
        return () => x.add(bias).gelu().add(y);
      },
    ],
    [
      'softmax of masked scores',
      async () => {
        const [x, mask] = [await leaf(8, 32, 256), await leaf(32, 256)];
        return () => x.mul(0.125).add(mask).softmax(-1);
      },
    ],
    [
      'a norm of a sum',
      async () => {
        const [x, y, norm] = [await leaf(64, 256), await leaf(64, 256), new nn.LayerNorm(256)];
        await Promise.all(norm.parameters().map((parameter) => parameter.realize()));
        return () => norm.forward(x.add(y));
      },
    ],
    [
      'steps and movement',
      async () => {
        const x = await leaf(8, 32, 64);
        return () => x.permute([1, 0, 2]).mul(2).relu().reshape([32, 512]);
      },
    ],
  ];

  it.each(chains)('are those of inputs and results for %s, in one kernel', async (_, build) => {
    const chain = await build();
    const { kernels, words, least } = await measure(() => chain().detach().realize());
    expect(kernels).toBe(1);
    expect(words / least).toBeLessThanOrEqual(1.1);
  });
});
