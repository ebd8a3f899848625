import { elementCount, formatShape } from '../base/shape.ts';
import { dimRuleOf, type OpDims } from '../graph/op-dims.ts';
import { isLinear } from '../graph/join-axis-types.ts';
import { ops } from '../graph/ops/ops.ts';
import { localShape } from '../layout/chunks.ts';
import { formatLayout, unsharded } from '../layout/layout.ts';
import type { DType, Shape, ValueType } from '../spec/dtype.ts';
import { LayoutError } from '../spec/errors.ts';
import type { Layout } from '../spec/layout.ts';
import type { MeshAxis } from '../spec/mesh.ts';
import type { Op, OpParams } from '../spec/op.ts';
import { firstPlace } from './axis-size.ts';
import { type FactorShard, type FactorShards, layoutOfDims, shardsOfDim } from './factor-shards.ts';

/** A distributed tensor without its values. */
export interface PlacedShape {
  readonly shape: Shape;
  readonly layout: Layout;
  readonly dtype: DType;
  /** Whether all elements are zeros, which are a term of any sum. */
  readonly isZero?: boolean;
}

/** What happens to the inputs of an op, and the layout of its result. */
export interface Propagation {
  /** For each input, the layout in which the op is computed. */
  readonly inputs: readonly Layout[];
  readonly output: Layout;
  /** Axes along which ranks compute different parts or terms. */
  readonly axes: readonly string[];
  /** The dim of the first input whose rows the op looks up. Undefined if every rank has all rows. */
  readonly lookup: number | undefined;
}

/**
 * The one rule of all ops: from the layouts of inputs it computes the layout of the result. The largest part keeps its
 * shards, and the other inputs follow. A dim that two inputs have is sharded alike in both. A dim that is summed over
 * leaves a partial sum. A partial sum stays one if the op is linear in it. Throws LayoutError if the op takes no
 * distributed tensors, if it needs a sharded dim whole, and if a dim is sharded where no boundary of its blocks is.
 */
export function propagateLayouts<K extends Op>(
  op: K,
  params: OpParams[K],
  inputs: readonly PlacedShape[],
  result: ValueType,
  axes: readonly MeshAxis[],
): Propagation {
  const rule = dimRuleOf(op, ops[op].dims);
  if (rule === null) throw noRule(op, inputs);
  const shapes = inputs.map(({ shape }) => shape);
  const dims = rule(params, shapes, result.shape);
  checkWhole(op, dims, inputs);
  const shards = shardsByFactor(op, dims, inputs, axes);
  const sharded = new Set([...shards.values()].flatMap((each) => each.axes));
  const partial = partialThatStays(op, params, inputs, result, sharded);
  const ofResult = new Set(dims.output.flat().map(({ name }) => name));
  const summed = [...shards].flatMap(([name, own]) => (ofResult.has(name) ? [] : own.axes));
  const layoutOf = (own: OpDims['output'], kept: readonly string[], shape: Shape): Layout => {
    const sharding = layoutOfDims(own, shards, axes);
    if (sharding === null) throw unevenParts(op, inputs, shape);
    return { ...sharding, partial: kept };
  };
  return {
    inputs: inputs.map(({ layout, shape }, index) => {
      const kept = layout.partial.filter((axis) => partial.includes(axis));
      return layoutOf(dims.inputs[index] ?? [], kept, shape);
    }),
    output: layoutOf(dims.output, [...partial, ...summed], result.shape),
    axes: [...sharded, ...partial],
    lookup: lookupOf(dims, shards),
  };
}

function lookupOf({ inputs, lookup }: OpDims, shards: FactorShards): number | undefined {
  if (lookup === undefined || !shards.has(lookup)) return undefined;
  return inputs[0]?.findIndex(([factor]) => factor?.name === lookup);
}

function noRule(op: Op, inputs: readonly PlacedShape[]): LayoutError {
  return new LayoutError(
    {
      asked: `${op} of a distributed tensor, ${inputs.map(formatPlaced).join(' and ')}`,
      found: 'an operation on the values of one rank',
      todo: 'Apply it to toLocal() of the tensor, and make the result distributed with fromLocal',
    },
    { op, inputs },
  );
}

function checkWhole(op: Op, dims: OpDims, inputs: readonly PlacedShape[]): void {
  inputs.forEach(({ shape, layout }, index) => {
    const dim = (dims.inputs[index] ?? []).findIndex(
      ([factor], at) =>
        factor !== undefined &&
        (dims.whole ?? []).includes(factor.name) &&
        (layout.dims[at] ?? []).length > 0,
    );
    if (dim < 0) return;
    const shards = layout.dims[dim] ?? [];
    // Programs redistribute to equal parts only.
    const { chunkSizes: _, ...equal } = unsharded(layout, shards);
    throw new LayoutError(
      {
        asked: `${op} of ${inputs.map(formatPlaced).join(' and ')}`,
        found: `dim ${dim} of input ${index}, of size ${shape[dim] ?? 0}, is sharded over ${shards.join(' and ')}, and each rank needs all of it`,
        todo: `Redistribute that input to ${formatLayout(equal)}`,
      },
      { op, inputs },
    );
  });
}

function formatPlaced({ shape, layout }: PlacedShape): string {
  return `${formatShape(shape)} ${formatLayout(layout)}`;
}

/**
 * Returns the axes that shard each factor. They are those of the largest input that shards the factor, as far as the
 * axes are free.
 */
function shardsByFactor(
  op: Op,
  { inputs: dims }: OpDims,
  inputs: readonly PlacedShape[],
  axes: readonly MeshAxis[],
): FactorShards {
  const shards = new Map<string, FactorShard>();
  const used = new Set<string>();
  const localSize = ({ shape, layout }: PlacedShape): number =>
    elementCount(localShape(shape, layout, firstPlace(axes)));
  const byLocalSize = inputs
    .map((input, index) => ({ input, index }))
    .sort((a, b) => localSize(b.input) - localSize(a.input) || a.index - b.index);
  for (const { input, index } of byLocalSize) {
    (dims[index] ?? []).forEach((factors, dim) => {
      const own = input.layout.dims[dim] ?? [];
      if (factors.length === 0 || own.length === 0) return;
      const found = shardsOfDim(factors, own, input.layout, axes);
      if (found === null) throw unevenParts(op, inputs, input.shape);
      for (const [name, shard] of found) {
        if (shards.has(name) || shard.axes.some((axis) => used.has(axis))) continue;
        shards.set(name, shard);
        for (const axis of shard.axes) used.add(axis);
      }
    });
  }
  return shards;
}

function unevenParts(op: Op, inputs: readonly PlacedShape[], shape: Shape): LayoutError {
  return new LayoutError(
    {
      asked: `${op} of ${inputs.map(formatPlaced).join(' and ')}`,
      found: `parts that end within a row of ${formatShape(shape)}, because the ranks do not divide its dims`,
      todo: 'Use sizes that the ranks divide, or redistribute the tensor so that these dims are whole',
    },
    { op, inputs },
  );
}

/** Returns the axes over which the result may stay a partial sum, because inputs are partial sums there. */
function partialThatStays<K extends Op>(
  op: K,
  params: OpParams[K],
  inputs: readonly PlacedShape[],
  { dtype }: ValueType,
  sharded: ReadonlySet<string>,
): readonly string[] {
  const found = new Set(inputs.flatMap(({ layout }) => layout.partial));
  const { linearIn } = ops[op];
  // A sum of rounded terms is not the rounded sum.
  const loses = op === 'cast' && inputs.some((input) => input.dtype !== dtype);
  if (loses || !isLinear(op, params, dtype)) return [];
  const groups = linearIn === 'all' ? [[...inputs.keys()]] : linearIn;
  return [...found].filter(
    (axis) =>
      !sharded.has(axis) &&
      groups.some((group) =>
        inputs.every(({ layout, isZero = false }, index) =>
          group.includes(index)
            ? layout.partial.includes(axis) || isZero
            : !layout.partial.includes(axis),
        ),
      ),
  );
}
