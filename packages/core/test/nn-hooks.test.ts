import { interpreter } from '@shardwise/testing';
import { beforeEach, expect, test } from 'vitest';
import { Linear } from '../src/nn/linear.ts';
import { ReLU } from '../src/nn/activations.ts';
import { Sequential } from '../src/nn/sequential.ts';
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
