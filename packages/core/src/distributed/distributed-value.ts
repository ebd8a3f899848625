import { formatShape, sameShape } from '../base/shape.ts';
import { uniform } from '../graph/axis-types.ts';
import { CallSite } from '../graph/call-site.ts';
import { makeNode } from '../graph/create-node.ts';
import { isZero } from '../graph/join-axis-types.ts';
import {
  type DistributedValue,
  isOp,
  localOf,
  type Node,
  none,
  type OwnGradient,
} from '../graph/node.ts';
import { ownGradient } from '../graph/ops/graph-ops.ts';
import { constant } from '../graph/ops/leaf.ts';
import { expandTo } from '../graph/ops/movement.ts';
import { createNodeOf } from '../graph/ops/ops.ts';
import { localShape } from '../layout/chunks.ts';
import { formatLayout, replicated, shardedAxes, unsharded } from '../layout/layout.ts';
import { describeTensor } from '../print/describe-tensor.ts';
import type { PrintForm } from '../print/inspect.ts';
import { currentSession, isComputing, ownPlace } from '../rank.ts';
import { withoutValues } from '../realize/pending/small-values.ts';
import type { Shape, ValueType } from '../spec/dtype.ts';
import { LayoutError } from '../spec/errors.ts';
import type { Layout } from '../spec/layout.ts';
import type { Op, OpParams } from '../spec/op.ts';
import { reinterpret } from '../tensor/collectives.ts';
import { Tensor } from '../tensor/tensor.ts';
import { checkLayout } from './check-layout.ts';
import { chunkedAxes, cutChunks, gatherChunks } from './given-chunks.ts';
import { lookUpRows } from './look-up-rows.ts';
import { layoutKey, planRedistribution } from './plan-redistribution.ts';
import { type Propagation, propagateLayouts } from './propagate-layouts.ts';
import { redistribute } from './redistribute.ts';
import { requireLayout } from './require-layout.ts';

/** A tensor as an op takes it. */
interface Placed {
  /** The shape of the whole. */
  readonly shape: Shape;
  readonly layout: Layout;
  /** This rank's part. It has size 1 in the dims that are repeated. */
  readonly local: Node;
  /** The dims in which each rank repeats one index as often as its part of the result needs. */
  readonly repeated: readonly number[];
}

/**
 * Makes the node that stands for a tensor of shape `shape`, of which `local` is this rank's part. Throws LayoutError if
 * it is not the part that the layout gives to this rank.
 */
export function distributedNode(shape: Shape, layout: Layout, local: Node): Node {
  const expected = localShape(shape, layout, ownPlace);
  if (!sameShape(expected, local.shape)) throw otherPart(shape, layout, expected, local.shape);
  return standIn({ shape, layout, local, repeated: [] });
}

/** Operations read the node by its `distributed`. Whatever reads it as the value of one rank gets an error. */
function standIn(placed: Placed): Node {
  const { shape, layout, local } = placed;
  const node = makeNode('distributed', none, [], shape, local.dtype, local.requiresGrad);
  node.value = {
    kind: 'failed',
    get error() {
      return notLocal(shape, layout);
    },
  };
  node.ofGradient = local.ofGradient;
  node.distributed = new Parts(placed);
  return node;
}

class Parts implements DistributedValue {
  readonly placed: Placed;
  #local: Node | null = null;

  constructor(placed: Placed) {
    this.placed = placed;
  }

  get layout(): Layout {
    return this.placed.layout;
  }

  get local(): Node {
    const { local, shape, layout } = this.placed;
    this.#local ??= withoutValues(() => repeatedTo(local, localShape(shape, layout, ownPlace)));
    return this.#local;
  }

  get whole(): Node | null {
    const { layout } = this;
    return shardedAxes(layout).length + layout.partial.length > 0 ? null : this.local;
  }

  apply(op: Op, params: OpParams[Op], inputs: readonly Node[], result: ValueType): Node {
    return withoutValues(() => {
      if (op === 'ownGradient') return ownGradientNode(inputs);
      const placed = inputs.map((input) => placedOf(op, input));
      return op === 'expand'
        ? repeatedNode(placed, result.shape)
        : computedNode(op, params, placed, result);
    });
  }

  redistribute(layout: Layout): Node {
    requireLayout('redistribute', layout);
    const { shape } = this.placed;
    checkLayout(layout, shape, currentSession().mesh.axes);
    return withoutValues(() =>
      distributedNode(shape, layout, moved(this.local, this.layout, layout, shape)),
    );
  }

  gradientOf(part: Node): Node {
    return distributedNode(this.placed.shape, ofGradient(this.layout), part);
  }

  useOwnGradient(rule: OwnGradient, inputs: readonly Node[]): void {
    this.local.ownGradient = (gradient, parts, part) => {
      const wholes = parts.map((own, index) => inputs[index]?.distributed?.like(own) ?? own);
      const gradients = rule(this.gradientOf(gradient), wholes, this.like(part));
      return gradients.map((each, index) => {
        return each === null ? null : (inputs[index]?.distributed?.gradientPart(each) ?? each);
      });
    };
  }

  gradientPart(gradient: Node): Node {
    const { local, layout, shape, repeated } = placedOf('a gradient', gradient);
    const to = ofGradient(this.layout);
    return withoutValues(() =>
      repeatedTo(
        moved(local, layout, withoutDims(to, repeated), withOnes(shape, repeated)),
        localShape(shape, to, ownPlace),
      ),
    );
  }

  describe(form: PrintForm): string {
    const { local } = this;
    const { shape, layout } = this.placed;
    const head = `Tensor ${local.dtype} ${formatShape(shape)}, ${formatLayout(layout)}`;
    if (form === 'line') return head;
    return `${head}; this rank has\n${describeTensor(new Tensor(local), form, isComputing())}`;
  }

  hookOf(change: (gradient: Node) => Node): (part: Node) => Node {
    return (part) => this.gradientPart(change(this.gradientOf(part)));
  }

  like(part: Node): Node {
    return distributedNode(this.placed.shape, this.layout, part);
  }
}

/** The input of an op. Numbers of the program are the same on all ranks. Throws LayoutError for values of one rank. */
function placedOf(op: string, node: Node): Placed {
  const { distributed, shape } = node;
  if (distributed instanceof Parts) return distributed.placed;
  if (isOp(node, 'constant')) {
    // The constant of each rank has the shape of its part.
    return { shape, layout: replicated(shape), local: node, repeated: [...shape.keys()] };
  }
  if (node.axisTypes === uniform) {
    return { shape, layout: replicated(shape), local: node, repeated: [] };
  }
  throw mixed(op, shape);
}

/** Applies an op to this rank's parts, after the redistributions that its rule asks for. */
function computedNode(
  op: Op,
  params: OpParams[Op],
  inputs: readonly Placed[],
  result: ValueType,
): Node {
  const { axes } = currentSession().mesh;
  const shapes = inputs.map(({ shape, layout, local }) => {
    return { shape, layout, dtype: local.dtype, isZero: isZero(local) };
  });
  const rule = propagateLayouts(op, params, shapes, result, axes);
  const parts = inputs.map((input, index) => partFor(input, rule, index));
  const shape = localShape(result.shape, rule.output, ownPlace);
  const local =
    rule.lookup === undefined
      ? createNodeOf(op, localParams(op, params, inputs, parts, shape), parts)
      : lookedUp(op, params, inputs, parts, rule, rule.lookup);
  return standIn({ shape: result.shape, layout: rule.output, local, repeated: [] });
}

function lookedUp(
  op: Op,
  params: OpParams[Op],
  [table]: readonly Placed[],
  [x, index]: readonly Node[],
  { inputs: [layout] }: Propagation,
  dim: number,
): Node {
  if (table === undefined || layout === undefined || x === undefined || index === undefined) {
    throw new RangeError(`${op} without rows or an index`);
  }
  return lookUpRows({ op, params, dim, shape: table.shape, layout }, x, index);
}

/**
 * This rank's part of an input, as the op takes it. An input that is the same on all ranks of an axis is made replicate
 * there if ranks use it differently (Megatron's f), so that its gradient is summed.
 */
function partFor(
  { shape, layout, local, repeated }: Placed,
  { inputs, axes }: Propagation,
  index: number,
): Node {
  const wanted = inputs[index] ?? layout;
  const to = withoutDims(wanted, repeated);
  const part = moved(local, layout, to, withOnes(shape, repeated));
  const own = new Set([...to.dims.flat(), ...to.partial]);
  const used = axes
    .filter((axis) => local.requiresGrad && !own.has(axis))
    .reduce((x, axis) => reinterpret(x, axis, 'invariant', 'replicate'), new Tensor(part));
  return repeatedTo(used.node, localShape(shape, wanted, ownPlace));
}

/**
 * The layout of the gradient of a value: that of its parts. The gradient of a term of a sum is the same on all ranks. If
 * each rank uses the value in its own way, the gradient is the sum of theirs.
 */
function ofGradient({ dims, flat, replicate = [], sections, chunkSizes }: Layout): Layout {
  return {
    dims,
    partial: replicate,
    ...(flat === undefined ? {} : { flat }),
    ...(sections === undefined ? {} : { sections }),
    ...(chunkSizes === undefined ? {} : { chunkSizes }),
  };
}

function moved(local: Node, from: Layout, to: Layout, shape: Shape): Node {
  if (layoutKey(from) === layoutKey(to)) return local;
  const { mesh } = currentSession();
  const [chunked, goal] = [chunkedAxes(from), chunkedAxes(to)];
  const even = withoutAxes(from, chunked);
  const plan = planRedistribution(even, withoutAxes(to, goal), shape, mesh.axes, local.dtype);
  const gathered = gatherChunks(new Tensor(local), from, shape);
  return cutChunks(redistribute(gathered, plan, mesh), to, shape).node;
}

/** Dims of size 1 are repeated only by the op that takes the result, each rank as far as its part goes. */
function repeatedNode([input]: readonly Placed[], shape: Shape): Node {
  if (input === undefined) throw new RangeError('expand without an input');
  const grown = shape.flatMap((size, dim) => (size === 1 || input.shape[dim] !== 1 ? [] : [dim]));
  const repeated = [...new Set([...input.repeated, ...grown])];
  const layout = withoutDims(input.layout, repeated);
  const local = moved(input.local, input.layout, layout, withOnes(shape, repeated));
  return standIn({ shape, layout, local, repeated });
}

/** The layout without the axes that shard these dims. */
function withoutDims(layout: Layout, gone: readonly number[]): Layout {
  return withoutAxes(
    layout,
    gone.flatMap((dim) => layout.dims[dim] ?? []),
  );
}

/** The layout with these axes sharding nothing. */
function withoutAxes(layout: Layout, axes: readonly string[]): Layout {
  if (axes.length === 0) return layout;
  const { sections = {}, chunkSizes = {}, ...rest } = unsharded(layout, axes);
  const kept = <T>(byAxis: Readonly<Record<string, T>>): Record<string, T> =>
    Object.fromEntries(Object.entries(byAxis).filter(([axis]) => !axes.includes(axis)));
  return { ...rest, sections: kept(sections), chunkSizes: kept(chunkSizes) };
}

function withOnes(shape: Shape, dims: readonly number[]): Shape {
  return shape.map((size, dim) => (dims.includes(dim) ? 1 : size));
}

function repeatedTo(node: Node, shape: Shape): Node {
  if (sameShape(node.shape, shape)) return node;
  return isOp(node, 'constant')
    ? constant(node.params.value, shape, node.dtype)
    : expandTo(node, shape);
}

/** The parameters of an op on parts. `shape` is that of this rank's part of the result. */
function localParams(
  op: Op,
  params: OpParams[Op],
  [input]: readonly Placed[],
  [part]: readonly Node[],
  shape: Shape,
): OpParams[Op] {
  if (op === 'reshape') return { shape };
  if ('inputShape' in params) return { ...params, inputShape: shape };
  if ('weightShape' in params) return { ...params, weightShape: shape };
  if (!('stops' in params) || input === undefined || part === undefined) return params;
  const stops = params.stops.map((stop, dim) =>
    stop === input.shape[dim] ? (part.shape[dim] ?? stop) : stop,
  );
  return { ...params, stops };
}

/** The node of a result whose gradient is not that of its op. Its other inputs stay as they are. */
function ownGradientNode([result, ...inputs]: readonly Node[]): Node {
  if (result === undefined) throw new RangeError('ownGradient without a result');
  const { shape, layout, ...placed } = placedOf('a function with a gradient of its own', result);
  const part = repeatedTo(placed.local, localShape(shape, layout, ownPlace));
  // It lies as the result does. The inputs only get gradients, each as it lies itself.
  const local = ownGradient(part, inputs.map(localOf), part.axisTypes);
  return standIn({ shape, layout, local, repeated: [] });
}

function mixed(op: string, shape: Shape): LayoutError {
  const { line } = new CallSite(op);
  return new LayoutError(
    {
      asked: `${op}${line === null ? '' : ` at ${line}`}, of a distributed tensor and a tensor of shape ${formatShape(shape)}`,
      found: 'a tensor of this rank, which may be another one on each rank',
      todo: 'Say how it lies on the ranks: distributeTensor if all ranks have all of it, fromLocal for parts; or take toLocal() of the other',
    },
    { op, shape },
  );
}

function notLocal(shape: Shape, layout: Layout): LayoutError {
  return new LayoutError(
    {
      asked: `the values of a distributed tensor of shape ${formatShape(shape)}`,
      found: `this rank has its part of ${formatLayout(layout)}`,
      todo: 'Use toLocal() for the part, or fullTensor(), on all ranks, for the whole',
    },
    { shape, layout },
  );
}

function otherPart(shape: Shape, layout: Layout, expected: Shape, part: Shape): LayoutError {
  return new LayoutError(
    {
      asked: `a part of shape ${formatShape(part)} as ${formatLayout(layout)} of a tensor of shape ${formatShape(shape)}`,
      found: `a part of shape ${formatShape(expected)} on this rank`,
      todo: 'Give the part that torch.chunk gives, or the shape of the whole',
    },
    { shape, layout, part, expected },
  );
}
