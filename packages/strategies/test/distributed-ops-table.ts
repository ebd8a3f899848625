import {
  formatLayout,
  fromData,
  type Layout,
  LayoutError,
  type Mesh,
  type MeshAxis,
  type Shape,
  type Tensor,
} from '@shardwise/core';
import { currentSession, dimRanges } from '@shardwise/core/extend';
import { distributeTensor, fromLocal } from '@shardwise/strategies';
import { onRanks } from '@shardwise/testing/node';
import * as fc from 'fast-check';
import { expect, it } from 'vitest';
import { type OpCase, opCases, type Sizes } from './ranks/distributed-op-cases.ts';
import { axesOf, difference, values } from './ranks/distributed-tensor-values.ts';

interface Outcome {
  readonly name: string;
  readonly refused: boolean;
  readonly valueError: number;
  readonly gradientError: number;
}

interface Drawn {
  readonly sizes: Sizes;
  /** Where each input is placed along each axis: on a dim, partial or nowhere. */
  readonly places: readonly (readonly number[])[];
}

const size = fc.integer({ min: 1, max: 5 });
const drawn: fc.Arbitrary<Drawn> = fc.record({
  sizes: fc.record({ b: size, m: size, k: size, n: fc.integer({ min: 2, max: 6 }) }),
  places: fc.array(fc.array(fc.nat({ max: 59 }), { minLength: 2, maxLength: 2 }), {
    minLength: 3,
    maxLength: 3,
  }),
});

/** Compares ops on inputs in random layouts with the op on whole tensors. All ranks draw the same `samples` layouts for each op. */
async function checkAll(samples: number): Promise<readonly Outcome[]> {
  const outcomes: Outcome[] = [];
  for (const [name, spec] of Object.entries(opCases)) {
    for (const sample of fc.sample(drawn, { numRuns: samples, seed: name.length * 31 + 7 }))
      outcomes.push(await check(name, spec, sample));
  }
  return outcomes;
}

async function check(name: string, spec: OpCase, { sizes, places }: Drawn): Promise<Outcome> {
  const { mesh } = currentSession();
  const inputs = [];
  for (const [index, { shape, below }] of spec.inputs(sizes).entries()) {
    const whole = wholeInput(shape, below, index);
    const { shardedDims = shape.length } = spec;
    const dims = { all: shape.length, sharded: Math.min(shape.length, shardedDims) };
    const layout = layoutAt(dims, places[index] ?? [], mesh.axes, below === undefined);
    inputs.push({ whole, layout, local: await localInput(whole, layout, mesh) });
  }
  const title = `${name}: ${inputs
    .map(({ whole, layout }) => `[${whole.shape.join(', ')}] ${formatLayout(layout)}`)
    .join(' and ')}`;
  const expected = applied(
    spec,
    inputs.map(({ whole }) => whole),
  );
  let found: Tensor;
  try {
    found = applied(
      spec,
      inputs.map(({ whole, layout, local }) => fromLocal(local, layout, whole.shape)),
    );
  } catch (error) {
    if (!(error instanceof LayoutError)) throw error;
    return { name: title, refused: true, valueError: 0, gradientError: 0 };
  }
  const valueError = await difference(found.fullTensor(), expected);
  const weights = fromData(values(expected.numel, 77), expected.shape, 'f32');
  // Its gradient is made of the result, so that it lies as the result does.
  expected.mul(expected.mul(weights)).sum().backward();
  const spread = distributeTensor(weights, {
    dims: weights.shape.map(() => []),
    partial: [],
  });
  found.mul(found.mul(spread)).sum().fullTensor().backward();
  let gradientError = 0;
  for (const { whole, layout, local } of inputs) {
    if (!whole.requiresGrad) continue;
    if (whole.grad === null || local.grad === null) throw new TypeError(`${title}: no gradient`);
    const wanted = partOf(whole.grad, layout, mesh);
    // An element of a gradient may be the rest of terms as large as the largest element, which round by themselves.
    const elements = Array.from(await whole.grad.data(), Number);
    const largest = Math.max(1, ...elements.map(Math.abs));
    gradientError = Math.max(
      gradientError,
      await difference(local.grad.div(largest), wanted.div(largest)),
    );
  }
  return { name: title, refused: false, valueError, gradientError };
}

/** Functions of fewer tensors ignore the others. */
function applied({ run }: OpCase, [x, y = x, z = x]: readonly Tensor[]): Tensor {
  if (x === undefined || y === undefined || z === undefined) throw new RangeError('no input');
  return run(x, y, z);
}

function wholeInput(shape: Shape, below: number | undefined, seed: number): Tensor {
  const count = shape.reduce((product, size) => product * size, 1);
  const random = values(count, seed + 1);
  if (below === undefined) {
    return fromData(
      random.map((value) => value + 2),
      shape,
      'f32',
    ).requiresGrad_();
  }
  const indices = Int32Array.from(random, (value) => Math.floor(((value + 1) / 2) * below));
  return fromData(indices, shape, 'i32');
}

function layoutAt(
  count: { readonly all: number; readonly sharded: number },
  places: readonly number[],
  axes: readonly MeshAxis[],
  mayBePartial: boolean,
): Layout {
  return axes.reduce<Layout>(
    ({ dims, partial }, { name }, index) => {
      const place = (places[index] ?? 0) % (count.sharded + 2);
      const own = place < count.sharded ? dims[place] : undefined;
      if (own !== undefined) return { dims: dims.with(place, [...own, name]), partial };
      return place === count.sharded && mayBePartial
        ? { dims, partial: [...partial, name] }
        : { dims, partial };
    },
    { dims: Array.from({ length: count.all }, () => []), partial: [] },
  );
}

function partOf(whole: Tensor, layout: Layout, mesh: Mesh): Tensor {
  return whole.shape.reduce((part, size, dim) => {
    const [{ start, stop } = { start: 0, stop: 0 }] = dimRanges(
      size,
      layout.dims[dim] ?? [],
      {},
      (axis) => mesh.group(axis),
    );
    return part.slice(dim, start, stop);
  }, whole.detach());
}

/** Returns a leaf with this rank's part. If the layout is partial, the ranks' leaves add up to the whole. */
async function localInput(whole: Tensor, layout: Layout, mesh: Mesh): Promise<Tensor> {
  const part = partOf(whole, layout, mesh);
  if (!whole.requiresGrad) return part;
  const terms = layout.partial.reduce((product, axis) => product * mesh.group(axis).size, 1);
  const place = layout.partial.reduce(
    (index, axis) => index * mesh.group(axis).size + mesh.coordinate(axis),
    0,
  );
  const sign = place % 2 === 0 ? 1 : -1;
  // The offsets of the ranks are 1.25, -1.25 and so on, and add up to 0. Only the first rank also adds the values.
  const isPaired = place < terms - (terms % 2);
  const offset = isPaired ? sign * 1.25 : 0;
  const data = Array.from(await part.data(), Number);
  const term = Float32Array.from(data, (value) => (place === 0 ? value : 0) + offset);
  return fromData(term, part.shape, 'f32').requiresGrad_();
}

function namesOf(found: readonly { readonly name: string }[]): ReadonlySet<string | undefined> {
  return new Set(found.map(({ name }) => name.split(':')[0]));
}

/** Adds the tests of distributed ops in a world of this size, with so many random layouts and sizes for each op. */
export function testDistributedOps(size: number, samples: number): void {
  const title =
    'ops on inputs in random layouts give the values and gradients of whole tensors, or refuse the layouts';

  it(`${title}, on ${size} ranks`, async () => {
    const ranks = await onRanks(size, () => checkAll(samples), { axes: axesOf(size) });
    for (const rank of ranks) {
      const accepted = rank.filter(({ refused }) => !refused);
      expect(accepted.length).toBeGreaterThan(rank.length * 0.75);
      if (size <= 2) expect(namesOf(accepted)).toEqual(namesOf(rank));
      for (const { name, valueError, gradientError } of accepted) {
        expect(valueError, name).toBeLessThan(1e-5);
        expect(gradientError, `gradients of ${name}`).toBeLessThan(1e-5);
      }
    }
  });
}
