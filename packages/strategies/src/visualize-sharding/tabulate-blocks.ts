import {
  formatRange,
  formatRanks,
  rangesOf,
  type PicturedPart,
  type ShardingPicture,
} from './sharding-picture.ts';

/** Writes blocks as a table with a row and a column for each range of elements. The cells list the ranks. */
export function tabulateBlocks({
  title,
  blocks,
  idle,
  rowDim,
  columnDim,
}: ShardingPicture): string {
  const rows = rangesOf(blocks.map((block) => block.rows));
  const columns = rangesOf(blocks.map((block) => block.columns));
  const head = ['', ...columns.map((range) => columnDim && `${columnDim}: ${formatRange(range)}`)];
  const body = rows.map((row) => [
    rowDim && `${rowDim}: ${formatRange(row)}`,
    ...columns.map((column) => cellOf(blocks, row.start, column.start)),
  ]);
  const lines = [head, ...body];
  const widths = head.map((_, column) =>
    Math.max(...lines.map((line) => line[column]?.length ?? 0)),
  );
  return [
    title,
    ...lines.map((line) =>
      line
        .map((cell, column) => cell.padEnd(widths[column] ?? 0))
        .join('  ')
        .trimEnd(),
    ),
    ...(idle.length === 0 ? [] : [`without elements: ${formatRanks(idle)}`]),
  ].join('\n');
}

function cellOf(blocks: readonly PicturedPart[], row: number, column: number): string {
  const block = blocks.find(({ rows, columns }) => rows.start === row && columns.start === column);
  return block === undefined ? '' : formatRanks(block.ranks);
}
