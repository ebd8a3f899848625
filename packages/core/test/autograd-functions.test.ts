import { interpreter } from '@shardwise/testing';
import { beforeEach, describe, expect, test } from 'vitest';
import { checkpoint } from '../src/nn/checkpoint.ts';
import { SGD } from '../src/optim/sgd.ts';
import { setRank } from '../src/rank.ts';
import { ConfigError, ShapeError, TensorStateError } from '../src/spec/errors.ts';
import { ones, tensor } from '../src/tensor/create.ts';
import { customFunction } from '../src/tensor/custom-function.ts';
import { grad, jvp, vjp } from '../src/tensor/gradients.ts';
import type { Tensor } from '../src/tensor/tensor.ts';

beforeEach(() => setRank({ device: interpreter() }));

function leaf(...values: number[]): Tensor {
  return tensor(values).requiresGrad_();
}

async function numbers(x: Tensor | null | undefined): Promise<number[]> {
  return Array.from((await x?.data()) ?? [], Number);
}

describe('grad', () => {
  test('gives gradients by leaves and by computed values, and leaves collect nothing', async () => {
    const x = leaf(1, 2);
    const y = x.mul(3);
    const [byX, byY] = grad(y.square().sum(), [x, y]);
    expect(await numbers(byX)).toEqual([18, 36]);
    expect(await numbers(byY)).toEqual([6, 12]);
    expect(x.grad).toBeNull();
  });

  test('adds up several outputs, each with what it begins with', async () => {
    const x = leaf(1, 2);
    const [byX] = grad([x.mul(2), x.square()], [x], {
      gradOutputs: [tensor([1, 10]), tensor([100, 1000])],
    });
    expect(await numbers(byX)).toEqual([202, 4020]);
  });

  test('of an input that nothing depends on is an error, or null where that is asked for', () => {
    const [x, other] = [leaf(1), leaf(2)];
    expect(() => grad(x.sum(), [x, other])).toThrow(TensorStateError);
    expect(grad(x.sum(), [x, other], { allowUnused: true })[1]).toBeNull();
  });

  test('of a tensor that requires no gradient is an error that says what to call', () => {
    const x = tensor([1, 2]);
    expect(() => grad(x.square().sum(), [x])).toThrow(
      'Call requiresGrad_() on it before it is used',
    );
  });

  test('of an output of several elements needs their gradients, of its shape', () => {
    const x = leaf(1, 2);
    expect(() => grad(x.mul(2), [x])).toThrow(ShapeError);
    expect(() => grad(x.mul(2), [x], { gradOutputs: [ones([3])] })).toThrow('[3]');
  });
});

describe('a gradient penalty', () => {
  test('has the gradient that PyTorch gives with create_graph', async () => {
    const x = leaf(1, -2, 3);
    const [first] = grad(x.pow(3).sum(), [x], { createGraph: true });
    const penalty = first?.square().sum();
    penalty?.backward();
    // The derivative of (3x²)² is 36 x³.
    expect(await numbers(x.grad)).toEqual([36, -288, 972]);
  });

  test('of a gradient without its graph is refused, and the error says how', () => {
    const x = leaf(1, 2);
    const [first] = grad(x.square().sum(), [x]);
    expect(() => first?.square().sum().add(x.sum()).backward()).toThrow('createGraph: true');
  });

  test('through a checkpoint is an error', () => {
    const x = leaf(1, 2);
    const y = checkpoint(() => x.square().exp());
    expect(() => grad(y.sum(), [x], { createGraph: true })).toThrow('without checkpoint()');
  });

  test('of third order is right, too', async () => {
    const x = leaf(2);
    const derivative = (y: Tensor): Tensor => {
      const [first] = grad(y.sum(), [x], { createGraph: true });
      if (first === undefined) throw new Error('no gradient');
      return first;
    };
    expect(await numbers(derivative(derivative(derivative(x.pow(5)))))).toEqual([240]);
  });
});

describe('backward with a gradient', () => {
  test('backward(gradient) starts from the given gradient in the place of ones', async () => {
    const x = leaf(1, 2);
    x.square().backward(tensor([10, 100]));
    expect(await numbers(x.grad)).toEqual([20, 400]);
  });

  test('of another shape is an error', () => {
    const x = leaf(1, 2);
    expect(() => x.square().backward(tensor([1]))).toThrow(ShapeError);
  });
});

describe('products with Jacobians', () => {
  const f = (x: Tensor, y: Tensor): Tensor => x.mul(y).sin();
  const [x, y] = [tensor([0.5, 1]), tensor([2, -1])];

  test('vjp from the left', async () => {
    const { output, gradients } = vjp(f, [x, y], tensor([1, 10]));
    expect(await numbers(output)).toEqual([1, -1].map((z) => Math.fround(Math.sin(z))));
    const cosine = Math.cos(1);
    const [byX, byY] = [await numbers(gradients[0]), await numbers(gradients[1])];
    expect(byX[0]).toBeCloseTo(2 * cosine, 6);
    expect(byX[1]).toBeCloseTo(-10 * cosine, 5);
    expect(byY[1]).toBeCloseTo(10 * cosine, 5);
  });

  test('jvp from the right', async () => {
    const { tangent } = jvp(f, [x, y], [tensor([1, 2]), tensor([3, 4])]);
    const found = await numbers(tangent);
    expect(found[0]).toBeCloseTo(Math.cos(1) * (2 * 1 + 0.5 * 3), 6);
    expect(found[1]).toBeCloseTo(Math.cos(1) * (-1 * 2 + 1 * 4), 6);
  });

  test('of a function that is linear, or does not depend on an input', async () => {
    const linear = (a: Tensor): Tensor => a.mul(3);
    expect(await numbers(jvp(linear, [x], [tensor([1, 2])]).tangent)).toEqual([3, 6]);
    const { gradients } = vjp((a) => a.sum(), [x, y]);
    expect(await numbers(gradients[1])).toEqual([0, 0]);
  });
});

describe('a custom function', () => {
  const straightThrough = customFunction({
    name: 'straightThrough',
    forward: (x) => x.round(),
    backward: (gradient) => gradient,
  });

  test('has the gradient of its own', async () => {
    const x = leaf(0.4, 1.6);
    const y = straightThrough(x);
    y.mul(tensor([2, 3]))
      .sum()
      .backward();
    expect(await numbers(y)).toEqual([0, 2]);
    expect(await numbers(x.grad)).toEqual([2, 3]);
  });

  test('reads its inputs and its output, of several inputs, and is differentiable twice', async () => {
    const product = customFunction({
      name: 'product',
      forward: (a, b) => a.mul(b),
      backward: (gradient, { inputs: [a, b] }) => [
        b === undefined ? null : gradient.mul(b),
        a === undefined ? null : gradient.mul(a),
      ],
    });
    const [a, b] = [leaf(2), leaf(5)];
    const [first] = grad(product(a, b).square().sum(), [a], { createGraph: true });
    expect(await numbers(first)).toEqual([100]);
    const [second] = grad(first?.sum() ?? [], [b]);
    expect(await numbers(second)).toEqual([40]);
  });

  test('gives what a checkpoint makes again the same gradient', async () => {
    const x = leaf(0.4, 1.6);
    checkpoint(() => straightThrough(x.mul(2)).square())
      .sum()
      .backward();
    expect(await numbers(x.grad)).toEqual([4, 12]);
  });

  test('whose gradients do not fit its inputs is an error that names it', () => {
    const broken = customFunction({
      name: 'broken',
      forward: (x) => x.mul(2),
      backward: () => ones([3]),
    });
    expect(() => broken(leaf(1, 2)).sum().backward()).toThrow('the gradient of broken for input 0');
    const forgetful = customFunction({
      name: 'forgetful',
      forward: (a, b) => a.add(b),
      backward: (gradient) => gradient,
    });
    expect(() => forgetful(leaf(1), leaf(2)).sum().backward()).toThrow('which has 2 inputs');
  });
});

describe('hooks of tensors', () => {
  test('see and change the gradient of a computed value', async () => {
    const x = leaf(1, 2);
    const y = x.mul(3);
    const seen: Tensor[] = [];
    y.registerHook((gradient) => {
      seen.push(gradient);
      return gradient.mul(10);
    });
    y.square().sum().backward();
    expect(await numbers(seen[0])).toEqual([6, 12]);
    expect(await numbers(x.grad)).toEqual([180, 360]);
  });

  test('see the sum of what all uses of a leaf owe it, before it is accumulated', async () => {
    const x = leaf(1, 2);
    let calls = 0;
    x.registerHook((gradient) => {
      calls++;
      return gradient.clamp(-2, 2);
    });
    x.mul(x).sum().backward();
    x.mul(5).sum().backward();
    expect(calls).toBe(2);
    expect(await numbers(x.grad)).toEqual([4, 4]);
  });

  test('stay with a leaf when it is updated, and go when they are removed', async () => {
    const x = leaf(1);
    const remove = x.registerHook((gradient) => gradient.mul(2));
    x.mul(3).sum().backward();
    await new SGD([x], { lr: 1 }).step();
    expect(await numbers(x)).toEqual([-5]);
    x.zeroGrad();
    x.mul(3).sum().backward();
    expect(await numbers(x.grad)).toEqual([6]);
    remove();
    x.zeroGrad();
    x.mul(3).sum().backward();
    expect(await numbers(x.grad)).toEqual([3]);
  });

  test('that return another shape, or a promise, are errors', () => {
    const x = leaf(1, 2);
    const remove = x.registerHook(() => ones([3]));
    expect(() => x.sum().backward()).toThrow(ShapeError);
    remove();
    const slow: () => unknown = async () => {};
    x.registerPostAccumulateGradHook(slow);
    expect(() => x.sum().backward()).toThrow(ConfigError);
  });

  test('after accumulation are given the leaf, whose gradient they read', async () => {
    const x = leaf(3);
    const seen: (Tensor | null)[] = [];
    x.registerPostAccumulateGradHook((owner) => void seen.push(owner.grad));
    x.square().sum().backward();
    expect(await numbers(seen[0])).toEqual([6]);
  });
});
