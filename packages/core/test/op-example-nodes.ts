import type { ExampleInput, FloatArray, NamedExample } from '@shardwise/testing';
import { elementCount } from '../src/base/shape.ts';
import type { Node } from '../src/graph/node.ts';
import { createNodeOf } from '../src/graph/ops/ops.ts';
import { fromData } from '../src/tensor/create.ts';

/** A name for the test of an example, such as `matmul 2`. Examples are numbered within their op. */
export function named(
  examples: readonly NamedExample[],
): readonly (readonly [name: string, ...NamedExample])[] {
  return examples.map((each, index) => {
    const first = examples.findIndex(([op]) => op === each[0]);
    return [`${each[0]} ${index - first}`, ...each] as const;
  });
}

/** The inputs that a test may choose the elements of. */
export function isChosen({ dtype, given }: ExampleInput): boolean {
  return dtype === 'float' && given === undefined;
}

/** The node of an example, with leaves of these elements in the place of the inputs that are chosen. */
export function nodeOf([op, { params, inputs }]: NamedExample, chosen: readonly Node[]): Node {
  const rest = [...chosen];
  const nodes = inputs.map((input) => (isChosen(input) ? taken(rest) : givenNode(input)));
  return createNodeOf(op, params, nodes);
}

function taken(rest: Node[]): Node {
  const node = rest.shift();
  if (node === undefined) throw new RangeError('an input without a node');
  return node;
}

/** A leaf with the elements that an example gives. */
export function givenNode({ shape, dtype, given = [] }: ExampleInput): Node {
  if (dtype === 'float') return fromData(Float64Array.from(given), shape, 'f64').node;
  const data = dtype === 'i32' ? Int32Array.from(given) : Uint8Array.from(given);
  return fromData(data, shape, dtype).node;
}

/**
 * Elements for the inputs that are chosen. They are distinct, so that no maximum is tied, and their order has no
 * pattern. They differ by at least 1 / 101 of the range. Each seed below 100 gives others.
 */
export function chosenElements([, { inputs }]: NamedExample, seed = 1): FloatArray[] {
  let next = seed;
  return inputs.filter(isChosen).map(({ shape, range: [low, high] }) =>
    Float64Array.from({ length: elementCount(shape) }, () => {
      next = (next * 37) % 101;
      return low + ((high - low) * next) / 101;
    }),
  );
}
