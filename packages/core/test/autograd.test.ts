import { interpreter } from '@shardwise/testing';
import { beforeEach, describe, expect, test } from 'vitest';
import { noGrad } from '../src/graph/create-node.ts';
import { SGD } from '../src/optim/sgd.ts';
import { setRank } from '../src/rank.ts';
import { ShapeError, TensorStateError } from '../src/spec/errors.ts';
import { concat, fromData, ones, tensor } from '../src/tensor/create.ts';
import type { Tensor } from '../src/tensor/tensor.ts';
import { operationsOf } from './graph-support.ts';

function leaf(...values: number[]): Tensor {
  return tensor(values).requiresGrad_();
}

async function numbers(x: Tensor | null): Promise<number[]> {
  return x === null ? [] : Array.from(await x.data(), Number);
}

beforeEach(() => setRank({ device: interpreter() }));

describe('backward', () => {
  test('builds graph only; one read computes loss and gradient together', async () => {
    const x = leaf(1, 2);
    const loss = x.square().sum();
    loss.backward();
    expect(x.grad?.node.value).toBeNull();
    expect(await loss.item()).toBe(5);
    expect(x.grad?.node.value).not.toBeNull();
    expect(await numbers(x.grad)).toEqual([2, 4]);
  });

  test('accumulates over two calls, before and after the first is computed', async () => {
    const x = leaf(1, 2);
    x.square().sum().backward();
    x.mul(10).sum().backward();
    expect(await numbers(x.grad)).toEqual([12, 14]);
    x.sum().backward();
    expect(await numbers(x.grad)).toEqual([13, 15]);
  });

  test('adds up the uses of a leaf, whatever their depth', async () => {
    const x = leaf(3);
    x.mul(x.add(x.exp().mul(0)))
      .sum()
      .backward();
    expect(await numbers(x.grad)).toEqual([6]);
  });

  test('of a tensor that is not a scalar names its shape', () => {
    expect(() => leaf(1, 2).mul(2).backward()).toThrow(ShapeError);
    expect(() => leaf(1, 2).mul(2).backward()).toThrow('shape [2]');
  });

  test('takes a tensor of one element and any number of dims', async () => {
    const x = tensor([[2]]).requiresGrad_();
    x.square().backward();
    expect(await numbers(x.grad)).toEqual([4]);
  });

  test('where nothing requires a gradient is an error', () => {
    expect(() => tensor([1]).sum().backward()).toThrow(TensorStateError);
    const x = leaf(1);
    expect(() => noGrad(() => x.square().sum()).backward()).toThrow(TensorStateError);
    expect(() => x.detach().square().sum().backward()).toThrow(TensorStateError);
  });

  test('a second time from one root adds the gradient again', async () => {
    const x = leaf(1, 2);
    const loss = x.square().sum();
    loss.backward();
    loss.backward();
    expect(await numbers(x.grad)).toEqual([4, 8]);
    loss.backward();
    expect(await numbers(x.grad)).toEqual([6, 12]);
  });

  test('leaves a leaf without a path to the loss without a gradient', () => {
    const [x, y] = [leaf(1), leaf(2)];
    x.square().sum().backward();
    expect(y.grad).toBeNull();
  });
});

describe('what is outside the gradient', () => {
  test('detach stops it on one path only', async () => {
    const x = leaf(3);
    x.mul(x.detach()).sum().backward();
    expect(await numbers(x.grad)).toEqual([3]);
  });

  test('noGrad ends with its body, also when that throws', () => {
    const x = leaf(1);
    expect(() =>
      noGrad(() => {
        throw new Error('body');
      }),
    ).toThrow('body');
    expect(x.mul(2).requiresGrad).toBe(true);
    expect(noGrad(() => x.mul(2)).requiresGrad).toBe(false);
  });

  test('a computed tensor cannot be made a leaf', () => {
    expect(() => leaf(1).mul(2).requiresGrad_()).toThrow(TensorStateError);
  });
});

describe('hooks', () => {
  test('run in the order in which backward completes the leaves: the last layer first', () => {
    const order: string[] = [];
    const leaves = { first: leaf(1), second: leaf(2), third: leaf(3) };
    for (const [name, x] of Object.entries(leaves)) {
      x.registerPostAccumulateGradHook(() => order.push(name));
    }
    leaves.first.mul(leaves.second).mul(leaves.third).sum().backward();
    expect(order).toEqual(['third', 'first', 'second']);
  });

  test('run once for a leaf that is used twice, and may replace the gradient', async () => {
    const x = leaf(2);
    let calls = 0;
    x.registerPostAccumulateGradHook(() => {
      calls++;
      if (x.grad !== null) x.setGradientNode(x.grad.mul(10).node);
    });
    x.mul(x).sum().backward();
    expect(calls).toBe(1);
    expect(await numbers(x.grad)).toEqual([40]);
  });

  test('stop when they are removed', () => {
    const x = leaf(1);
    let calls = 0;
    const remove = x.registerPostAccumulateGradHook(() => calls++);
    x.square().sum().backward();
    remove();
    x.square().sum().backward();
    expect(calls).toBe(1);
  });
});

describe('a leaf that is frozen for a while', () => {
  test('keeps its hooks', () => {
    const x = leaf(1);
    let calls = 0;
    const remove = x.registerPostAccumulateGradHook(() => calls++);
    x.requiresGrad_(false).requiresGrad_(true);
    x.square().sum().backward();
    expect(calls).toBe(1);
    remove();
    x.square().sum().backward();
    expect(calls).toBe(1);
  });

  test('keeps its gradient, which an optimizer applies, as in PyTorch', async () => {
    const x = leaf(1);
    x.mul(2).sum().backward();
    x.requiresGrad_(false);
    expect(await numbers(x.grad)).toEqual([2]);
    await new SGD([x], { lr: 1 }).step();
    expect(await numbers(x)).toEqual([-1]);
    x.requiresGrad_(true).mul(3).sum().backward();
    expect(await numbers(x.grad)).toEqual([5]);
    x.zeroGrad();
    expect(x.grad).toBeNull();
  });

  test('collects nothing meanwhile, also of a loss that was written before', async () => {
    const [x, y] = [leaf(1), leaf(2)];
    const loss = x.mul(y).sum();
    x.requiresGrad_(false);
    loss.backward();
    expect(x.grad).toBeNull();
    expect(await numbers(y.grad)).toEqual([1]);
  });

  test('takes no hooks meanwhile, as in PyTorch', () => {
    const x = leaf(1).requiresGrad_(false);
    expect(() => x.registerPostAccumulateGradHook(() => {})).toThrow(/requiresGrad_\(\) first/);
  });
});

describe('values that are gone', () => {
  test('an expression written before an update and computed after it is refused', async () => {
    const x = leaf(...Array.from({ length: 300 }, (_, i) => i));
    const before = x.mul(10);
    x.assign(x.mul(2));
    await x.realize();
    await expect(before.data()).rejects.toThrow(TensorStateError);
    expect((await numbers(x.mul(10))).slice(0, 3)).toEqual([0, 20, 40]);
  });

  test('one that is computed together with the update sees the old value', async () => {
    const x = leaf(1, 2);
    const before = x.mul(10);
    x.assign(x.mul(2));
    const after = x.mul(10);
    expect(await numbers(concat([before, after]))).toEqual([10, 20, 20, 40]);
  });

  test('a gradient that zeroGrad freed names zeroGrad', async () => {
    const x = leaf(1, 2);
    x.square().sum().backward();
    const gradient = x.grad;
    await gradient?.realize();
    x.zeroGrad();
    expect(x.grad).toBeNull();
    await expect(gradient?.data()).rejects.toThrow('zeroGrad()');
  });

  test('a gradient that zeroGrad cleared is there for an update that was written before', async () => {
    const x = leaf(1, 2);
    const loss = x.square().sum();
    loss.backward();
    expect(await loss.item()).toBe(5);
    noGrad(() => x.assign(x.sub((x.grad ?? x).mul(0.25))));
    x.zeroGrad();
    expect(await numbers(x)).toEqual([0.5, 1]);
  });

  test('dispose frees at once', async () => {
    const device = interpreter();
    setRank({ device });
    const y = await ones([1000]).mul(2).realize();
    expect(device.bytesInUse()).toBe(4000);
    y.dispose();
    expect(device.bytesInUse()).toBe(0);
    await expect(y.data()).rejects.toThrow('dispose()');
  });
});

describe('slices that tile a tensor', () => {
  test('owe it one concatenation', async () => {
    const x = fromData(Float32Array.of(1, 2, 3, 4, 5, 6), [2, 3], 'f32').requiresGrad_();
    const parts = [x.slice(1, 2, 3), x.slice(1, 0, 1), x.slice(1, 1, 2)];
    parts
      .map((part, i) =>
        part
          .square()
          .mul(i + 1)
          .sum(),
      )
      .reduce((a, b) => a.add(b))
      .backward();
    expect(x.grad?.node.op).toBe('concat');
    expect(await numbers(x.grad)).toEqual([4, 12, 6, 16, 30, 12]);
  });

  test('that leave a gap or overlap are added', async () => {
    const x = leaf(1, 2, 3, 4);
    x.slice(0, 0, 2)
      .sum()
      .add(x.slice(0, 1, 3).sum())
      .backward();
    expect(await numbers(x.grad)).toEqual([1, 2, 1, 0]);
  });

  test('need no pad', () => {
    const x = leaf(1, 2, 3, 4);
    x.slice(0, 0, 2).mul(x.slice(0, 2)).sum().backward();
    expect(operationsOf(x.grad)).not.toContain('pad');
  });
});
