import { interpreter } from '@shardwise/testing';
import { beforeEach, describe, expect, test } from 'vitest';
import { noGrad } from '../src/graph/create-node.ts';
import type { Gradients } from '../src/nn/module/backward-hooks.ts';
import { Module } from '../src/nn/module/module.ts';
import { Linear } from '../src/nn/layers/linear.ts';
import { ReLU } from '../src/nn/layers/activations.ts';
import { Sequential } from '../src/nn/containers/sequential.ts';
import { setRank } from '../src/rank.ts';
import { ConfigError } from '../src/spec/errors.ts';
import { ones, tensor } from '../src/tensor/create.ts';
import { Tensor } from '../src/tensor/tensor.ts';

beforeEach(() => setRank({ device: interpreter() }));

async function numbers(x: unknown): Promise<number[]> {
  return x instanceof Tensor ? Array.from(await x.data(), Number) : [];
}

test('hooks around forward see inputs and outputs, and may give others, wherever the module is called', async () => {
  const relu = new ReLU();
  const model = new Sequential(relu);
  const seen: unknown[] = [];
  relu.registerForwardPreHook((module, [x]) => {
    expect(module).toBe(relu);
    return x instanceof Tensor ? [x.sub(1)] : undefined;
  });
  relu.registerForwardHook((_, inputs, output) => {
    seen.push(inputs[0], output);
    return output instanceof Tensor ? output.mul(10) : undefined;
  });
  expect(await numbers(model.forward(tensor([0, 3])))).toEqual([0, 20]);
  expect(await numbers(seen[0])).toEqual([-1, 2]);
  expect(await numbers(seen[1])).toEqual([0, 2]);
});

test('hooks that return nothing change nothing, and stop when they are removed', async () => {
  const layer = new Linear(2, 1);
  let calls = 0;
  const remove = layer.registerForwardHook(() => {
    calls++;
  });
  const before = await numbers(layer.forward(ones([1, 2])));
  remove();
  expect(await numbers(layer.forward(ones([1, 2])))).toEqual(before);
  expect(calls).toBe(1);
});

test('the gradient of what a module returns is seen by a hook of that tensor', async () => {
  const relu = new ReLU();
  const seen: Tensor[] = [];
  relu.registerForwardHook((_module, _inputs, output) => {
    if (output instanceof Tensor) output.registerHook((gradient) => void seen.push(gradient));
  });
  relu
    .forward(tensor([1, 2]).requiresGrad_())
    .mul(tensor([3, 4]))
    .sum()
    .backward();
  expect(await numbers(seen[0])).toEqual([3, 4]);
});

test('a hook that returns a promise is an error', () => {
  const relu = new ReLU();
  relu.registerForwardHook(async () => {});
  expect(() => relu.forward(ones([1]))).toThrow(ConfigError);
});

test('hooks are no members of a module', () => {
  const layer = new Linear(2, 1);
  layer.registerForwardPreHook(() => {});
  expect(layer.parameters()).toHaveLength(2);
  expect(Object.keys(layer)).toEqual(Object.keys(new Linear(2, 1)));
});

describe('a full backward hook', () => {
  /** A module with two tensor inputs, one input that is no tensor, and two outputs. */
  class Weighted extends Module {
    forward(x: Tensor, factor: number, y: Tensor): readonly [Tensor, Tensor] {
      return [x.mul(y).mul(factor), y.add(1)];
    }
  }

  test('is given the gradients of inputs and outputs, as PyTorch gives them', async () => {
    const [x, y] = [tensor([1, 2]).requiresGrad_(), tensor([3, 4]).requiresGrad_()];
    const layer = new Weighted();
    const seen: (readonly Gradients[])[] = [];
    layer.registerFullBackwardHook((module, ...gradients) => {
      expect(module).toBe(layer);
      seen.push(gradients);
    });
    const [product, sum] = layer.forward(x, 10, y);
    product
      .mul(tensor([1, 2]))
      .add(sum)
      .sum()
      .add(x.sum())
      .backward();
    expect(seen).toHaveLength(1);
    const [gradInput = [], gradOutput = []] = seen[0] ?? [];
    expect(await Promise.all(gradInput.map(numbers))).toEqual([[30, 80], [], [11, 41]]);
    expect(await Promise.all(gradOutput.map(numbers))).toEqual([
      [1, 2],
      [1, 1],
    ]);
    expect(await numbers(x.grad)).toEqual([31, 81]);
    expect(await numbers(y.grad)).toEqual([11, 41]);
  });

  test('may put other gradients in the place of those of the inputs', async () => {
    const [x, y] = [tensor([1, 2]).requiresGrad_(), tensor([3, 4]).requiresGrad_()];
    const layer = new Weighted();
    const remove = layer.registerFullBackwardHook((_, [ofX = null, factor = null, ofY = null]) => [
      ofX?.mul(2) ?? null,
      factor,
      ofY?.neg() ?? null,
    ]);
    layer.forward(x, 10, y)[0].sum().backward();
    expect(await numbers(x.grad)).toEqual([60, 80]);
    expect(await numbers(y.grad)).toEqual([-10, -20]);
    remove();
    layer.forward(x, 10, y)[0].sum().backward();
    expect(await numbers(x.grad)).toEqual([90, 120]);
  });

  test('is given a gradient of each input, also where two are one tensor', async () => {
    const x = tensor([1, 2]).requiresGrad_();
    const layer = new Weighted();
    const seen: Gradients[] = [];
    layer.registerFullBackwardHook((_, gradInput) => void seen.push(gradInput));
    layer
      .forward(x, 10, x)[0]
      .add(layer.forward(x, 1, x)[1])
      .sum()
      .backward();
    expect(await numbers(x.grad)).toEqual([21, 41]);
    expect(seen).toHaveLength(2);
    expect(await Promise.all((seen[1] ?? []).map(numbers))).toEqual([[10, 20], [], [10, 20]]);
  });

  test('runs once for outputs of which one alone is used, and for inputs of which one alone has a gradient', async () => {
    const y = tensor([3, 4]).requiresGrad_();
    const layer = new Weighted();
    const seen: unknown[] = [];
    layer.registerFullBackwardHook((_, gradInput, gradOutput) => {
      const isThere = (gradient: Tensor | null): boolean => gradient !== null;
      seen.push([gradInput.map(isThere), gradOutput.map(isThere)]);
    });
    layer
      .forward(ones([2]), 10, y)[1]
      .sum()
      .backward();
    layer
      .forward(y, 10, ones([2]))[0]
      .sum()
      .backward();
    expect(seen).toEqual([
      [
        [false, false, true],
        [false, true],
      ],
      [
        [true, false, false],
        [true, false],
      ],
    ]);
    expect(await numbers(y.grad)).toEqual([11, 11]);
  });

  test('runs for a module whose inputs have no gradient, as the first one of a model', async () => {
    const layer = new Linear(2, 1);
    const seen: Gradients[] = [];
    layer.registerFullBackwardHook((_, ...gradients) => void seen.push(...gradients));
    layer
      .forward(ones([1, 2]))
      .mul(3)
      .sum()
      .backward();
    expect(seen[0]).toEqual([null]);
    expect(await numbers(seen[1]?.[0])).toEqual([3]);
    expect(await numbers(layer.weight.grad)).toEqual([3, 3]);
    noGrad(() => layer.forward(ones([1, 2])));
    expect(seen).toHaveLength(2);
  });

  test('refuses gradients that do not fit', () => {
    const x = tensor([1, 2]).requiresGrad_();
    const wrong: readonly (readonly [unknown, string])[] = [
      [[], 'a list of 0 gradients'],
      [[ones([3])], 'one of shape [3] that it returned'],
      [[1], 'the gradient of input 0'],
      [ones([2]), 'no list'],
    ];
    for (const [returned, says] of wrong) {
      const relu = new ReLU();
      relu.registerFullBackwardHook(() => returned as never);
      expect(() => relu.forward(x).sum().backward()).toThrow(says);
    }
  });
});
