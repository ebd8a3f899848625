import { type DimSharding, formatShape, LayoutError, type Shape } from '@shardwise/core/extend';

interface EvenShardingRequest {
  readonly name: string;
  readonly shape: Shape;
  readonly dim: number;
  /** The number of ranks. */
  readonly size: number;
  /** The heads of each section, none of which is cut. Default: the dim is one section that can be cut anywhere. */
  readonly heads?: readonly number[];
}

/** Returns the sharding of a parameter along a dim in equal parts. Throws LayoutError if that is not possible. */
export function evenSharding({ name, shape, dim, size, heads }: EvenShardingRequest): DimSharding {
  const total = shape[dim];
  if (total === undefined) {
    throw new LayoutError(
      {
        asked: `dim ${dim} of '${name}' over ${size} ranks`,
        found: `shape ${formatShape(shape)}`,
        todo: 'Use the style of a module that has this dim',
      },
      { name, shape, dim },
    );
  }
  const units = heads ?? [total];
  const count = units.reduce((sum, each) => sum + each, 0);
  if (total % count !== 0) {
    throw new LayoutError(
      {
        asked: `'${name}' of shape ${formatShape(shape)} as ${units.join(' + ')} heads along dim ${dim}`,
        found: `${total} is no multiple of ${count}`,
        todo: 'Give the numbers of heads that the module was built with',
      },
      { name, shape, dim, heads: units },
    );
  }
  const odd = units.find((each) => each % size !== 0);
  if (odd !== undefined) {
    const what = heads === undefined ? 'elements' : 'heads';
    throw new LayoutError(
      {
        asked: `'${name}' of shape ${formatShape(shape)} over ${size} ranks along dim ${dim}`,
        found: `${odd} ${what}, ${odd % size} more than a multiple of ${size}`,
        todo:
          heads === undefined
            ? `Pad it to ${Math.ceil(odd / size) * size}, or use a number of ranks that divides ${odd}`
            : `Use a number of ranks that divides ${odd}`,
      },
      { name, shape, dim, size, [what]: odd },
    );
  }
  if (units.length === 1) return { shard: dim };
  return { shard: dim, sections: units.map((each) => (each * total) / count) };
}
