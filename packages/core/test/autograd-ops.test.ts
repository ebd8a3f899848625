import {
  checkGradients,
  type FloatArray,
  interpreter,
  type NamedExample,
  opExamples,
} from '@shardwise/testing';
import { beforeEach, describe, expect, test } from 'vitest';
import { elementCount } from '../src/base/shape.ts';
import { cast } from '../src/graph/ops/elementwise.ts';
import type { Node } from '../src/graph/node.ts';
import { setRank } from '../src/rank.ts';
import type { Shape } from '../src/spec/dtype.ts';
import { fromData } from '../src/tensor/create.ts';
import { grad } from '../src/tensor/gradients.ts';
import { Tensor } from '../src/tensor/tensor.ts';
import { chosenElements, isChosen, named, nodeOf } from './op-example-nodes.ts';

// Collectives need ranks, transfers need a plan, and ops of the graph never reach a program: other tests cover these.

beforeEach(() => setRank({ device: interpreter() }));

const differentiable = named(opExamples().filter(([, { inputs }]) => inputs.some(isChosen)));

describe('gradients are the derivatives that finite differences give', () => {
  test.each(differentiable)('%s', async (_, ...example) => {
    const values = chosenElements(example);
    const [leaves, loss] = lossOf(example, values);
    // A gradient of zeros stands for an op through which none flows, such as a comparison.
    if (loss.requiresGrad) loss.backward();
    const gradients: FloatArray[] = [];
    for (const { grad: gradient, shape } of leaves) {
      if (gradient !== null) expect(gradient.shape).toEqual(shape);
      gradients.push(await elementsOf(gradient, shape));
    }
    await checkGradients((inputs) => lossOf(example, inputs)[1].item(), values, gradients, {
      rtol: 1e-6,
      atol: 1e-7,
    });
  });
});

describe('gradients have the gradients that finite differences give', () => {
  const penalized = (
    example: NamedExample,
    inputs: readonly FloatArray[],
  ): [Tensor[], Tensor | undefined] => {
    const [leaves, loss] = lossOf(example, inputs);
    if (!loss.requiresGrad) return [leaves, undefined];
    const first = grad(loss, leaves, { createGraph: true, allowUnused: true });
    const terms = first.flatMap((each) => (each === null ? [] : [weighted(each.node)]));
    return [leaves, terms.reduce((sum, term) => sum.add(term))];
  };
  test.each(differentiable)('%s', async (_, ...example) => {
    const values = chosenElements(example);
    const [leaves, penalty] = penalized(example, values);
    if (penalty === undefined) return expect(leaves.length).toBeGreaterThan(0);
    const second = penalty.requiresGrad
      ? grad(penalty, leaves, { allowUnused: true })
      : leaves.map(() => null);
    const gradients: FloatArray[] = [];
    for (const [index, { shape }] of leaves.entries()) {
      gradients.push(await elementsOf(second[index] ?? null, shape));
    }
    const lossAt = async (inputs: readonly FloatArray[]): Promise<number> =>
      (await penalized(example, inputs)[1]?.item()) ?? Number.NaN;
    await checkGradients(lossAt, values, gradients, {
      rtol: 1e-5,
      atol: 1e-6,
      directions: 2,
      elementwiseLimit: 0,
    });
  });
});

test('an input that occurs twice gets both gradients', async () => {
  const x = fromData(Float64Array.of(2, 3), [2], 'f64').requiresGrad_();
  x.mul(x).sum().backward();
  expect(await x.grad?.data()).toEqual(Float64Array.of(4, 6));
});

test('no gradient flows through ops of whole numbers and bools', () => {
  const without = opExamples().filter((example) => {
    const leaves = chosenElements(example).map((data, index) =>
      leafOf(data, shapeOf(example, index)),
    );
    return !nodeOf(
      example,
      leaves.map(({ node }) => node),
    ).requiresGrad;
  });
  expect([...new Set(without.map(([op]) => op))].toSorted()).toEqual([
    'argMax',
    'argSort',
    'cast',
    'constant',
    'equal',
    'iota',
    'less',
    'lessEqual',
    'logicalAnd',
    'logicalNot',
    'logicalOr',
    'random',
  ]);
});

function shapeOf([, { inputs }]: NamedExample, index: number): Shape {
  return inputs.filter(isChosen)[index]?.shape ?? [];
}

function leafOf(data: FloatArray, shape: Shape): Tensor {
  return fromData(data, shape, 'f64').requiresGrad_();
}

/** The leaves of an example, and a scalar that depends on all elements of its result. */
function lossOf(example: NamedExample, values: readonly FloatArray[]): [Tensor[], Tensor] {
  const leaves = values.map((data, index) => leafOf(data, shapeOf(example, index)));
  const result = nodeOf(
    example,
    leaves.map(({ node }) => node),
  );
  return [leaves, weighted(cast(result, 'f64'))];
}

async function elementsOf(gradient: Tensor | null, shape: Shape): Promise<FloatArray> {
  if (gradient === null) return new Float64Array(elementCount(shape));
  return Float64Array.from(await gradient.data(), Number);
}

/** A scalar that depends on every element with a different factor. */
function weighted(y: Node): Tensor {
  const weights = Float64Array.from(
    { length: elementCount(y.shape) },
    (_, i) => Math.cos(1.7 * i) + 1.3,
  );
  return new Tensor(y).mul(fromData(weights, y.shape, 'f64')).sum();
}
