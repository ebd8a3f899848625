import {
  chunksOf,
  formatLayout,
  formatShape,
  type Layout,
  type MeshAxis,
  type PlaceOf,
} from '@shardwise/core/extend';

/** Returns a rank's place on each axis. Neighbours on the last axis are neighbouring ranks. */
export function placeOf(rank: number, axes: readonly MeshAxis[]): PlaceOf {
  let left = rank;
  const places = new Map(
    axes.toReversed().map(({ name, size }) => {
      const place = { size, rank: left % size };
      left = Math.floor(left / size);
      return [name, place] as const;
    }),
  );
  return (axis) => places.get(axis) ?? { size: 1, rank: 0 };
}

/**
 * Draws as text which ranks have each element of a matrix. It is for layouts that share out elements instead of dims.
 */
export function elementPicture(
  layout: Layout,
  shape: readonly number[],
  axes: readonly MeshAxis[],
): string {
  const [rows = 0, columns = 0] = shape;
  const holders = Array.from({ length: rows }, () =>
    Array.from({ length: columns }, (): number[] => []),
  );
  const size = axes.reduce((product, axis) => product * axis.size, 1);
  for (let rank = 0; rank < size; rank += 1) {
    for (const { box, start, stop } of chunksOf(shape, layout, placeOf(rank, axes))) {
      const [row = { start: 0, stop: 0 }, column = { start: 0, stop: 0 }] = box;
      const width = column.stop - column.start;
      for (let element = start; element < stop; element += 1) {
        const [down, across] = [Math.floor(element / width), element % width];
        holders[row.start + down]?.[column.start + across]?.push(rank);
      }
    }
  }
  const cells = holders.map((line) => line.map((ranks) => ranks.join(',')));
  const width = Math.max(...cells.flat().map((text) => text.length));
  const mesh = axes.map((axis) => `${axis.name}=${axis.size}`).join(' × ');
  return [
    `${formatShape(shape)} ${formatLayout(layout)} on ${mesh}; ranks of each element`,
    ...cells.map((line) =>
      line
        .map((text) => text.padEnd(width))
        .join(' ')
        .trimEnd(),
    ),
  ].join('\n');
}
