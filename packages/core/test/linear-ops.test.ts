import { type ExampleInput, interpreter, type NamedExample, opExamples } from '@shardwise/testing';
import { beforeEach, expect, test } from 'vitest';
import { elementCount } from '../src/base/shape.ts';
import { isLinear } from '../src/graph/join-axis-types.ts';
import { createNodeOf, ops } from '../src/graph/ops/ops.ts';
import { setRank } from '../src/rank.ts';
import { fromData } from '../src/tensor/create.ts';
import { Tensor } from '../src/tensor/tensor.ts';
import { givenNode, named } from './op-example-nodes.ts';

beforeEach(() => setRank({ device: interpreter() }));

/** Numbers of the range of an input, which differ for each seed. */
function numbersOf({ shape, range: [low, high] }: ExampleInput, seed: number): Float64Array {
  return Float64Array.from({ length: elementCount(shape) }, (_, at) => {
    return low + ((high - low) * (Math.sin(1 + at * 1.7 + seed * 2.3) + 1)) / 2;
  });
}

/** The result of an op, with these elements in its floats. Null if the result is no floats. */
async function resultOf(
  [op, { params, inputs }]: NamedExample,
  elementsOf: (input: ExampleInput, index: number) => Float64Array,
): Promise<number[] | null> {
  const nodes = inputs.map((input, index) => {
    if (input.dtype !== 'float') return givenNode(input);
    return fromData(elementsOf(input, index), input.shape, 'f64').node;
  });
  const result = createNodeOf(op, params, nodes);
  if (result.dtype !== 'f64') return null;
  return Array.from(await new Tensor(result).data(), Number);
}

function areClose(a: readonly number[], b: readonly number[]): boolean {
  return a.every((value, at) => Math.abs(value - (b[at] ?? Number.NaN)) <= 1e-9);
}

/** Whether the op of the sum of two terms is the sum of the op of each, if these inputs are terms. */
async function isAdditive(example: NamedExample, terms: ReadonlySet<number>): Promise<boolean> {
  const at =
    (seed: number) =>
    (input: ExampleInput, index: number): Float64Array =>
      numbersOf(input, index + (terms.has(index) ? seed : 0));
  const [first, second, sum] = [
    await resultOf(example, at(10)),
    await resultOf(example, at(20)),
    await resultOf(example, (input, index) => {
      const [a, b] = [at(10)(input, index), at(20)(input, index)];
      return terms.has(index) ? a.map((value, place) => value + (b[place] ?? Number.NaN)) : a;
    }),
  ];
  if (first === null || second === null || sum === null) return false;
  const ofTerms = first.map((value, place) => value + (second[place] ?? Number.NaN));
  return areClose(ofTerms, sum);
}

/** The inputs on which the result depends. A decomposition need not read all that a backend may use. */
async function inputsThatCount(example: NamedExample): Promise<number[]> {
  const result = await resultOf(example, numbersOf);
  if (result === null) return [];
  const counting: number[] = [];
  for (const [index, { dtype }] of example[1].inputs.entries()) {
    const other = await resultOf(example, (input, place) =>
      numbersOf(input, place === index ? place + 30 : place),
    );
    if (dtype === 'float' && other !== null && !areClose(result, other)) counting.push(index);
  }
  return counting;
}

function subsetsOf(items: readonly number[]): ReadonlySet<number>[] {
  const [item, ...rest] = items;
  if (item === undefined) return [new Set()];
  return subsetsOf(rest).flatMap((subset) => [subset, new Set([item, ...subset])]);
}

test.each(named(opExamples()))(
  'an op is linear in the inputs that its entry says, and in no others: %s',
  async (_, ...example) => {
    const [op, { params, inputs }] = example;
    const { linearIn } = ops[op];
    const declared = linearIn === 'all' ? [[...inputs.keys()]] : linearIn;
    const groups = isLinear(op, params, 'f64') ? declared.filter((group) => group.length > 0) : [];
    const result = await resultOf(example, numbersOf);
    for (const group of result === null ? [] : groups) {
      expect(await isAdditive(example, new Set(group)), `terms: ${group.join()}`).toBe(true);
    }
    const counting = await inputsThatCount(example);
    // A backend may compute the gradients of attention from all inputs, the decomposition from some. These entries say
    // only what is true of both.
    if (counting.length < inputs.filter(({ dtype }) => dtype === 'float').length) return;
    for (const terms of subsetsOf(counting)) {
      const isDeclared = groups.some((group) => terms.isSubsetOf(new Set(group)));
      if (terms.size === 0 || isDeclared) continue;
      expect(await isAdditive(example, terms), `terms: ${[...terms].join()}`).toBe(false);
    }
  },
);
