import {
  type Block,
  blockOf,
  concat,
  type DimRange,
  type Extent,
  extentOfBlocks,
  formatShape,
  LayoutError,
  type Shape,
  type Tensor,
} from '@shardwise/core/extend';

/**
 * How the ranks of an axis share out a parameter: along `dim`, in sections of which each rank has an
 * equal part (rows of queries, keys and values are three sections).
 */
export interface Partition {
  readonly dim: number;
  /** Sizes along `dim`, in order; they sum to that of the dim. */
  readonly sections: readonly number[];
}

export interface PartitionRequest {
  readonly name: string;
  readonly shape: Shape;
  readonly dim: number;
  /** Number of ranks. */
  readonly size: number;
  /** Heads of each section, of which none is cut; by default one section that is cut anywhere. */
  readonly heads?: readonly number[];
}

/** Throws LayoutError where the ranks can't have equal parts. */
export function partitionOf({ name, shape, dim, size, heads }: PartitionRequest): Partition {
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
  return { dim, sections: units.map((each) => (each * total) / count) };
}

/** Shape: whole -> part. */
export function partShape({ dim }: Partition, shape: Shape, size: number): Shape {
  return shape.map((total, at) => (at === dim ? total / size : total));
}

/** What a part has of the whole. */
export function partExtent(partition: Partition, shape: Shape, size: number, part: number): Extent {
  const { dim } = partition;
  const whole = blockOf(shape);
  const ranges = partRanges(partition, size, part);
  // Several sections lie side by side in each row of the dims before.
  const isBlock = ranges.length === 1;
  const before = whole
    .slice(0, dim)
    .reduce<Block[]>(
      (rows, { start, stop }) =>
        rows.flatMap((row) =>
          isBlock ? [[...row, { start, stop }]] : unitRanges(stop).map((index) => [...row, index]),
        ),
      [[]],
    );
  const after = whole.slice(dim + 1);
  return extentOfBlocks(
    shape,
    before.flatMap((row) => ranges.map((range) => [...row, range, ...after])),
  );
}

function unitRanges(count: number): DimRange[] {
  return Array.from({ length: count }, (_, start) => ({ start, stop: start + 1 }));
}

/** Of the whole, in the order in which the part holds them. */
function partRanges({ sections }: Partition, size: number, part: number): DimRange[] {
  let offset = 0;
  return sections.map((section) => {
    const own = section / size;
    const start = offset + part * own;
    offset += section;
    return { start, stop: start + own };
  });
}

/** Shape: whole -> part. */
export function takePart(whole: Tensor, partition: Partition, size: number, part: number): Tensor {
  const { dim } = partition;
  const slices = partRanges(partition, size, part).map(({ start, stop }) =>
    whole.slice(dim, start, stop),
  );
  return slices.length === 1 ? (slices[0] ?? whole) : concat(slices, dim);
}

/** Shape: parts of all ranks, joined along the dim in rank order -> whole. */
export function wholeOf(joined: Tensor, { dim, sections }: Partition, size: number): Tensor {
  if (sections.length === 1) return joined;
  const partSize = (joined.shape[dim] ?? 0) / size;
  let offset = 0;
  const pieces = sections.flatMap((section) => {
    const own = section / size;
    const start = offset;
    offset += own;
    return Array.from({ length: size }, (_, rank) =>
      joined.slice(dim, rank * partSize + start, rank * partSize + start + own),
    );
  });
  return concat(pieces, dim);
}

export function samePartition(a: Partition, b: Partition): boolean {
  return a.dim === b.dim && a.sections.join() === b.sections.join();
}
