import {
  allGather,
  allReduce,
  allToAll,
  currentSession,
  formatShape,
  LayoutError,
  localChunk,
  reduceScatter,
  reinterpret,
  ShapeError,
  type Tensor,
} from '@shardwise/core/extend';
import { formatPlacement, type Placement } from './placement.ts';

type Operation = 'allReduce' | 'allGather' | 'reduceScatter' | 'allToAll';

interface Change {
  readonly forward: Operation | null;
  readonly backward: Operation | null;
  /** `from` and `to` are dims, where the placement on that side is a shard. */
  readonly build: (x: Tensor, axis: string, from: number, to: number) => Tensor;
}

const copy = (x: Tensor, axis: string): Tensor => reinterpret(x, axis, 'invariant', 'replicate');

/**
 * What each change communicates. Megatron's operators (Shoeybi et al. 2019; Korthikanti et al. 2022)
 * are rows of it: f is invariant to replicate, g is partial to invariant, and with sequence
 * parallelism shard to replicate and partial to shard.
 */
const changes = {
  'invariant to replicate': { forward: null, backward: 'allReduce', build: copy },
  'invariant to shard': {
    forward: null,
    backward: 'allGather',
    build: (x, axis, _, to) => localChunk(x, axis, to),
  },
  'replicate to shard': {
    forward: null,
    backward: null,
    build: (x, axis, _, to) => ownPart(x, axis, to),
  },
  'partial to invariant': {
    forward: 'allReduce',
    backward: null,
    build: (x, axis) => allReduce(x, axis, { to: 'invariant' }),
  },
  'partial to replicate': {
    forward: 'allReduce',
    backward: 'allReduce',
    build: (x, axis) => allReduce(x, axis),
  },
  'partial to shard': {
    forward: 'reduceScatter',
    backward: 'allGather',
    build: (x, axis, _, to) => reduceScatter(x, axis, to),
  },
  'shard to invariant': {
    forward: 'allGather',
    backward: null,
    build: (x, axis, from) => allGather(x, axis, from, 'invariant'),
  },
  'shard to replicate': {
    forward: 'allGather',
    backward: 'reduceScatter',
    build: (x, axis, from) => allGather(x, axis, from),
  },
  'shard to shard': {
    forward: 'allToAll',
    backward: 'allToAll',
    build: (x, axis, from, to) => allToAll(x, axis, to, from),
  },
} as const satisfies Readonly<Record<string, Change>>;

type ChangeName = keyof typeof changes;

/** Has `x` lie otherwise on the ranks of `axis`. Throws LayoutError for a change that there is not. */
export function changePlacement(x: Tensor, axis: string, from: Placement, to: Placement): Tensor {
  const [fromDim, toDim] = [dimOf(from, x.ndim), dimOf(to, x.ndim)];
  if (kindOf(from) === kindOf(to) && fromDim === toDim) return x;
  return changeOf(from, to).build(x, axis, fromDim, toDim);
}

/** Which collectives a change needs in either pass, to be known without a tensor. */
export function changeCollectives(
  from: Placement,
  to: Placement,
): Readonly<Record<'forward' | 'backward', Operation | null>> {
  const same =
    typeof from === 'string' || typeof to === 'string' ? from === to : from.shard === to.shard;
  return same ? { forward: null, backward: null } : changeOf(from, to);
}

function changeOf(from: Placement, to: Placement): Change {
  const name = `${kindOf(from)} to ${kindOf(to)}`;
  if (isChange(name)) return changes[name];
  throw new LayoutError(
    {
      asked: `an activation that is ${formatPlacement(from)} as ${formatPlacement(to)}`,
      found: `no change of this kind; there are ${Object.keys(changes).join(', ')}`,
      todo: 'Choose placements on the two sides that one of these joins',
    },
    { from, to },
  );
}

function isChange(name: string): name is ChangeName {
  return Object.hasOwn(changes, name);
}

function kindOf(placement: Placement): string {
  return typeof placement === 'string' ? placement : 'shard';
}

/** -1 for a placement without dim. */
function dimOf(placement: Placement, ndim: number): number {
  if (typeof placement === 'string') return -1;
  return placement.shard < 0 ? placement.shard + ndim : placement.shard;
}

function ownPart(x: Tensor, axis: string, dim: number): Tensor {
  const { size, rank } = currentSession().mesh.group(axis);
  const total = x.shape[dim] ?? 0;
  if (total % size !== 0) {
    throw new ShapeError(
      {
        asked: `dim ${dim} of an activation of shape ${formatShape(x.shape)} over ${size} ranks of '${axis}'`,
        found: `${total} = ${Math.floor(total / size)} · ${size} + ${total % size}`,
        todo: `Pad it to a multiple of ${size}`,
      },
      { shape: x.shape, dim, axis, size },
    );
  }
  const part = total / size;
  return x.slice(dim, rank * part, (rank + 1) * part);
}
