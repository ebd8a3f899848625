import {
  type DType,
  elementCount,
  formatLayout,
  formatShape,
  type Layout,
  LayoutError,
  localShape,
  type MeshAxis,
  type Shape,
} from '@shardwise/core/extend';
import { checkLayout } from '../layout/check-layout.ts';
import type { OpCall } from './op-call.ts';
import { signatureOf, type DimLabel, type OpSignature } from './op-signature.ts';
import { planRedistribution } from '../layout/plan-redistribution.ts';
import type { RedistributionPlan } from '../layout/redistribution.ts';
import { firstPlace } from '../layout/axis-size.ts';

/** A distributed tensor without its values. */
export interface PlacedShape {
  readonly shape: Shape;
  readonly layout: Layout;
  /** The dtype for counting bytes. Default: f32. */
  readonly dtype?: DType;
}

/** What happens to the inputs of an op, and the layout of its output. */
export interface Propagation {
  /** For each input, the plan for redistributing it into the layout in which the op is computed. */
  readonly inputs: readonly RedistributionPlan[];
  readonly output: PlacedShape;
  /** Axes along which ranks compute different parts. */
  readonly axes: readonly string[];
}

/**
 * The one rule of all ops: from the layouts of inputs it computes the layout of the output. The largest part
 * keeps its shards, and the other inputs follow. A dim that two inputs have is sharded alike in both. A dim
 * that is summed over leaves a partial sum. A partial sum stays one if the op is linear in it. Throws
 * LayoutError if the op needs a sharded dim whole, and ShapeError for shapes that do not fit.
 */
export function propagateLayouts(
  call: OpCall,
  inputs: readonly PlacedShape[],
  axes: readonly MeshAxis[],
): Propagation {
  for (const { layout, shape } of inputs) checkLayout(layout, shape, axes);
  const signature = signatureOf(
    call,
    inputs.map(({ shape }) => shape),
  );
  checkWhole(call, signature, inputs);
  const shards = shardsByLabel(signature, inputs, axes);
  const partial = partialThatStays(signature, inputs, new Set([...shards.values()].flat()));
  const dimsOf = (labels: readonly DimLabel[]): readonly (readonly string[])[] =>
    labels.map((label) => (label === null ? [] : (shards.get(label) ?? [])));
  const summed = [...shards].flatMap(([label, own]) =>
    signature.output.includes(label) ? [] : own,
  );
  return {
    inputs: inputs.map(({ layout, shape, dtype }, index) => {
      const to = {
        dims: dimsOf(signature.inputs[index] ?? []),
        partial: layout.partial.filter((axis) => partial.includes(axis)),
      };
      return planRedistribution(layout, to, shape, axes, dtype);
    }),
    output: {
      shape: signature.output.map((label) =>
        label === null ? 1 : (signature.sizes.get(label) ?? 1),
      ),
      layout: { dims: dimsOf(signature.output), partial: [...partial, ...summed] },
    },
    axes: [...[...shards.values()].flat(), ...partial],
  };
}

function checkWhole(
  call: OpCall,
  { inputs: labels, whole }: OpSignature,
  inputs: readonly PlacedShape[],
): void {
  inputs.forEach(({ shape, layout }, index) => {
    const dim = (labels[index] ?? []).findIndex(
      (label, at) => label !== null && whole.includes(label) && (layout.dims[at] ?? []).length > 0,
    );
    if (dim < 0) return;
    const shards = (layout.dims[dim] ?? []).join(' and ');
    const remedy: Layout = { dims: layout.dims.with(dim, []), partial: [] };
    throw new LayoutError(
      {
        asked: `${call.op} of ${inputs.map(formatPlaced).join(' and ')}`,
        found: `dim ${dim} of input ${index}, of size ${shape[dim] ?? 0}, is sharded over ${shards}, and each rank needs all of it`,
        todo: `Redistribute that input to ${formatLayout(remedy)}`,
      },
      { call, inputs },
    );
  });
}

function formatPlaced({ shape, layout }: PlacedShape): string {
  return `${formatShape(shape)} ${formatLayout(layout)}`;
}

/**
 * Returns the axes that shard each label. They are those of the largest input that shards the label, as far as the axes
 * are free.
 */
function shardsByLabel(
  { inputs: labels }: OpSignature,
  inputs: readonly PlacedShape[],
  axes: readonly MeshAxis[],
): ReadonlyMap<string, readonly string[]> {
  const shards = new Map<string, readonly string[]>();
  const used = new Set<string>();
  const localSize = ({ shape, layout }: PlacedShape): number =>
    elementCount(localShape(shape, layout, firstPlace(axes)));
  const byLocalSize = inputs
    .map((input, index) => ({ input, index }))
    .sort((a, b) => localSize(b.input) - localSize(a.input) || a.index - b.index);
  for (const { input, index } of byLocalSize) {
    (labels[index] ?? []).forEach((label, dim) => {
      const own = input.layout.dims[dim] ?? [];
      if (label === null || own.length === 0 || shards.has(label)) return;
      if (own.some((axis) => used.has(axis))) return;
      shards.set(label, own);
      for (const axis of own) used.add(axis);
    });
  }
  return shards;
}

/** Returns the axes over which the output may stay a partial sum, because inputs are partial sums there. */
function partialThatStays(
  { linear }: OpSignature,
  inputs: readonly PlacedShape[],
  sharded: ReadonlySet<string>,
): readonly string[] {
  const found = new Set(inputs.flatMap(({ layout }) => layout.partial));
  return [...found].filter((axis) => {
    if (sharded.has(axis)) return false;
    const holders = inputs.flatMap(({ layout }, index) =>
      layout.partial.includes(axis) ? [index] : [],
    );
    if (linear === 'all') return holders.length === inputs.length;
    const [holder] = holders;
    return holders.length === 1 && holder !== undefined && linear.includes(holder);
  });
}
