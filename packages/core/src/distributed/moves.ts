import { elementCount } from '../base/shape.ts';
import { chunkRange } from '../layout/chunks.ts';
import type { Shape } from '../spec/dtype.ts';
import { LayoutError } from '../spec/errors.ts';
import {
  allGather,
  allReduce,
  allToAll,
  localChunk,
  reduceScatter,
  reinterpret,
} from '../tensor/collectives.ts';
import { full } from '../tensor/create.ts';
import type { Tensor } from '../tensor/tensor.ts';
import {
  type AxisLayout,
  formatAxisLayout,
  isSharding,
  requireSharding,
  sameAxisLayout,
  type Sharding,
} from './axis-layout.ts';
import { fromParts, padTo, partOf, type Place, toParts, trimTo } from './equal-parts.ts';
import { partDim } from './part-shapes.ts';
import type { RedistributionMove, RedistributionOperation } from './redistribution.ts';

/** The collectives that a move may use in either pass. The backward ones follow from the graph's gradient rules. */
type Collective = 'allReduce' | 'allGather' | 'reduceScatter' | 'allToAll';

interface Change {
  readonly operation: RedistributionOperation;
  /** The collective of the backward pass. Null if there is none. */
  readonly backward: Collective | null;
}

/**
 * All possible changes over one axis. Megatron's operators (Shoeybi et al. 2019; Korthikanti et al. 2022) are entries
 * of the table: f is invariant to replicate, and g is partial to invariant. With sequence parallelism they are shard to
 * replicate and partial to shard.
 */
const changes = {
  'invariant to replicate': { operation: 'reinterpret', backward: 'allReduce' },
  'invariant to shard': { operation: 'slice', backward: 'allGather' },
  'invariant to partial': { operation: 'keepOnFirst', backward: 'allReduce' },
  'replicate to shard': { operation: 'slice', backward: null },
  'partial to invariant': { operation: 'allReduce', backward: null },
  'partial to replicate': { operation: 'allReduce', backward: 'allReduce' },
  'partial to shard': { operation: 'reduceScatter', backward: 'allGather' },
  'shard to invariant': { operation: 'allGather', backward: null },
  'shard to replicate': { operation: 'allGather', backward: 'reduceScatter' },
  'shard to shard': { operation: 'allToAll', backward: 'allToAll' },
} as const satisfies Readonly<Record<string, Change>>;

type ChangeName = keyof typeof changes;

const collectives: ReadonlySet<string> = new Set<Collective>([
  'allReduce',
  'allGather',
  'reduceScatter',
  'allToAll',
]);

/**
 * Returns the move from one layout over an axis to another, or null if they are the same. Throws LayoutError if there
 * is no move between them.
 */
export function moveOver(
  axis: string,
  from: AxisLayout,
  to: AxisLayout,
): RedistributionMove | null {
  if (sameAxisLayout(from, to)) return null;
  const { operation } = changeOf(from, to);
  return { operation, axis, from, to };
}

/** Returns the collectives of the move and of its gradient. They are known without a tensor. */
export function collectivesOfMove(
  move: RedistributionMove | null,
): Readonly<Record<'forward' | 'backward', string | null>> {
  if (move === null) return { forward: null, backward: null };
  const { operation, from, to } = move;
  return {
    forward: collectives.has(operation) ? operation : null,
    backward: changeOf(from, to).backward,
  };
}

function changeOf(from: AxisLayout, to: AxisLayout): Change {
  const name = `${kindOf(from)} to ${kindOf(to)}`;
  const isFlatMove = name === 'shard to shard' && (from === 'flat' || to === 'flat');
  if (isChange(name) && !isFlatMove) return changes[name];
  throw new LayoutError(
    {
      asked: `a tensor that is ${formatAxisLayout(from)} as ${formatAxisLayout(to)}`,
      found: `no change of this kind; there are ${Object.keys(changes).join(', ')}`,
      todo: 'Choose two layouts between which one of these changes leads',
    },
    { from, to },
  );
}

function isChange(name: string): name is ChangeName {
  return Object.hasOwn(changes, name);
}

function kindOf(layout: AxisLayout): string {
  return isSharding(layout) ? 'shard' : layout;
}

/**
 * Carries a move out on this rank's tensor by adding its collective to the graph. `whole` is the shape that the tensor
 * would have if the axis did not shard it. Uneven parts are padded with zeros for the message. Shape: as `from` -> as `to`.
 */
export function applyMove(
  x: Tensor,
  { operation, axis, from, to }: RedistributionMove,
  whole: Shape,
  place: Place,
): Tensor {
  const type = to === 'replicate' ? 'replicate' : 'invariant';
  switch (operation) {
    case 'reinterpret':
      return reinterpret(x, axis, 'invariant', 'replicate');
    case 'keepOnFirst':
      return keepOnFirst(x, axis, place);
    case 'allReduce':
      return allReduce(x, axis, { to: type });
    case 'allGather': {
      const sharding = requireSharding(from);
      const dim = partDim(sharding);
      const part = padTo(x, dim, Math.ceil(lengthOf(whole, sharding) / place.size));
      return fromParts(allGather(part, axis, dim, type), sharding, place.size, whole);
    }
    case 'reduceScatter': {
      const sharding = requireSharding(to);
      const dim = partDim(sharding);
      const padded = toParts(x, sharding, place.size);
      const part = reduceScatter(padded, axis, dim);
      return withoutPadding(part, sharding, place, whole);
    }
    case 'slice': {
      const sharding = requireSharding(to);
      if (from === 'replicate') {
        const part = partOf(reinterpret(x, axis, 'replicate', 'varying'), sharding, place);
        return withoutPadding(part, sharding, place, whole);
      }
      const padded = toParts(x, sharding, place.size);
      const part = localChunk(padded, axis, partDim(sharding));
      return withoutPadding(part, sharding, place, whole);
    }
    case 'allToAll': {
      const [rows, columns] = [requireSharding(from), requireSharding(to)];
      const [dim, toDim] = [partDim(rows), partDim(columns)];
      const part = padTo(x, dim, Math.ceil((whole[dim] ?? 0) / place.size));
      const block = toParts(part, columns, place.size);
      const moved = fromParts(allToAll(block, axis, toDim, dim), rows, place.size, whole);
      return withoutPadding(moved, columns, place, whole);
    }
    default:
      return operation satisfies never;
  }
}

/** Keeps the values of the first rank, and makes those of the others zeros. Shape: N -> N. */
function keepOnFirst(x: Tensor, axis: string, { rank }: Place): Tensor {
  const used = reinterpret(x, axis, 'invariant', 'replicate');
  const own = reinterpret(used, axis, 'replicate', 'varying');
  const terms = full([], rank === 0 ? 1 : 0, 'bool').where(own, 0);
  return reinterpret(terms, axis, 'varying', 'partial');
}

/** Returns the number of rows of a dim, or of elements, that the axis shards. */
function lengthOf(whole: Shape, sharding: Sharding): number {
  return sharding === 'flat' ? elementCount(whole) : (whole[sharding.shard] ?? 0);
}

function withoutPadding(x: Tensor, sharding: Sharding, place: Place, whole: Shape): Tensor {
  const { start, stop } = chunkRange(lengthOf(whole, sharding), place.size, place.rank);
  return trimTo(x, partDim(sharding), stop - start);
}
