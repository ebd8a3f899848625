import { type FloatArray, interpreter, type NamedExample, opExamples } from '@shardwise/testing';
import { beforeEach, expect, test } from 'vitest';
import { type DimFactor, dimRuleOf, type OpDims } from '../src/graph/op-dims.ts';
import type { Node } from '../src/graph/node.ts';
import { add, cast } from '../src/graph/ops/elementwise.ts';
import { concat, sliceDim } from '../src/graph/ops/movement.ts';
import { createNodeOf, ops } from '../src/graph/ops/ops.ts';
import { setRank } from '../src/rank.ts';
import type { OpParams } from '../src/spec/op.ts';
import { fromData } from '../src/tensor/create.ts';
import { Tensor } from '../src/tensor/tensor.ts';
import { chosenElements, givenNode, isChosen, named } from './op-example-nodes.ts';

beforeEach(() => setRank({ device: interpreter() }));

type Dims = OpDims['output'];

function nodesOf(example: NamedExample): Node[] {
  const chosen = chosenElements(example);
  const next = (): FloatArray => chosen.shift() ?? new Float64Array(0);
  return example[1].inputs.map((input) =>
    isChosen(input) ? fromData(next(), input.shape, 'f64').node : givenNode(input),
  );
}

/** The dims of which a factor is the outermost part. Undefined if it is an inner part of one. */
function placesOf(dims: Dims, name: string): readonly number[] | undefined {
  const isInner = dims.some((factors) => factors.slice(1).some((factor) => factor.name === name));
  return isInner ? undefined : dims.flatMap(([outer], dim) => (outer?.name === name ? [dim] : []));
}

/** The first half of a factor, or the rest. Other dims stay whole. */
function partOf(x: Node, dims: Dims, factor: DimFactor, half: 0 | 1): Node {
  const [dim] = placesOf(dims, factor.name) ?? [];
  if (dim === undefined) return x;
  const inner = (x.shape[dim] ?? 0) / factor.size;
  const middle = Math.ceil(factor.size / 2) * inner;
  return half === 0 ? sliceDim(x, dim, 0, middle) : sliceDim(x, dim, middle, x.shape[dim] ?? 0);
}

/** The parameters of an op on parts. Those that are sizes become the sizes of the parts. */
function localParams(
  params: OpParams['add'],
  whole: readonly Node[],
  parts: readonly Node[],
  shape: readonly number[],
): object {
  const own: Record<string, unknown> = { ...params };
  for (const name of ['shape', 'inputShape', 'weightShape']) if (name in own) own[name] = shape;
  if (Array.isArray(own['stops'])) {
    own['stops'] = own['stops'].map((stop: number, dim) =>
      stop === whole[0]?.shape[dim] ? parts[0]?.shape[dim] : stop,
    );
  }
  return own;
}

function elementsOf(x: Node): Promise<ArrayLike<unknown>> {
  return new Tensor(cast(x, 'f64')).data();
}

test.each(named(opExamples()).filter(([, , { inputs }]) => inputs.length > 0))(
  'the result of parts is a part of the result, or a term of it: %s',
  async (_, ...example) => {
    const [op, { params }] = example;
    const whole = nodesOf(example);
    const result = createNodeOf(op, params, whole);
    const shapes = whole.map(({ shape }) => shape);
    const dims = dimRuleOf(op, ops[op].dims)?.(params, shapes, result.shape);
    if (dims === undefined) return expect(ops[op].dims).toBe('none');
    const { inputs, output, whole: kept = [], lookup } = dims;
    const factors = new Map(inputs.flat(2).map((factor) => [factor.name, factor]));
    for (const [name, factor] of factors) {
      if (kept.includes(name) || name === lookup || factor.size < 2) continue;
      const places = [...inputs, output].map((each) => placesOf(each, name));
      if (places.includes(undefined)) continue;
      const terms = ([0, 1] as const).map((half) => {
        const parts = whole.map((x, index) => partOf(x, inputs[index] ?? [], factor, half));
        const shape = partOf(result, output, factor, half).shape;
        // The cast is safe, because the parameters keep their names and types.
        const own = localParams(params, whole, parts, shape) as OpParams[typeof op];
        return createNodeOf(op, own, parts);
      });
      const [dim] = placesOf(output, name) ?? [];
      const [first = result, second = result] = terms;
      const joined = dim === undefined ? add(first, second) : concat([first, second], dim);
      const [found, expected] = [await elementsOf(joined), await elementsOf(result)];
      expect(joined.shape, name).toEqual(result.shape);
      Array.from(expected, Number).forEach((value, at) => {
        expect(Number(found[at]), `${name} ${at}`).toBeCloseTo(value, 9);
      });
    }
  },
);
