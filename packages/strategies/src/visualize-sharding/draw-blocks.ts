import { formatRange, formatRanks, rangesOf, type ShardingPicture } from './sharding-picture.ts';

/** The margins of the image, in pixels. */
const margin = { left: 96, top: 72, right: 24, bottom: 24 };
const LONGEST_SIDE = 360;
const SHORTEST_SIDE = 72;

/**
 * Draws blocks as an SVG image with a colour for each set of ranks. It is to scale, unless a side would be too short to
 * read.
 */
export function drawBlocks(picture: ShardingPicture): string {
  const { title, blocks, idle, rowDim, columnDim, rowCount, columnCount } = picture;
  const scale = LONGEST_SIDE / Math.max(1, rowCount, columnCount);
  const width = Math.max(SHORTEST_SIDE, columnCount * scale);
  const height = Math.max(SHORTEST_SIDE, rowCount * scale);
  const x = (element: number): number => margin.left + (element / Math.max(1, columnCount)) * width;
  const y = (element: number): number => margin.top + (element / Math.max(1, rowCount)) * height;
  const note = idle.length === 0 ? '' : `without elements: ${formatRanks(idle)}`;
  const total = {
    width: Math.max(margin.left + width + margin.right, 48 + 7.5 * title.length),
    height: margin.top + height + margin.bottom + (note === '' ? 0 : 20),
  };
  const cells = blocks.map(({ rows, columns, ranks }, index) => {
    const box = {
      x: x(columns.start),
      y: y(rows.start),
      width: x(columns.stop) - x(columns.start),
      height: y(rows.stop) - y(rows.start),
    };
    return [
      `<rect ${attributes(box)} fill="${colourOf(index, blocks.length)}" stroke="#fff" stroke-width="2"/>`,
      text(ranks.join(', '), box.x + box.width / 2, box.y + box.height / 2, 'middle'),
    ].join('');
  });
  const columnLabels = rangesOf(blocks.map((block) => block.columns)).map((range) =>
    text(formatRange(range), (x(range.start) + x(range.stop)) / 2, margin.top - 12, 'middle'),
  );
  const rowLabels = rangesOf(blocks.map((block) => block.rows)).map((range) =>
    text(formatRange(range), margin.left - 12, (y(range.start) + y(range.stop)) / 2, 'end'),
  );
  return [
    `<svg xmlns="http://www.w3.org/2000/svg" width="${round(total.width)}" height="${round(total.height)}" role="img" font-family="system-ui, sans-serif" font-size="13">`,
    `<title>${escaped(title)}</title>`,
    `<rect width="100%" height="100%" fill="#fff"/>`,
    text(title, 24, 20, 'start'),
    ...(columnDim
      ? [text(columnDim, margin.left + width / 2, margin.top - 30, 'middle'), ...columnLabels]
      : []),
    ...(rowDim ? [text(rowDim, margin.left - 12, margin.top - 12, 'end'), ...rowLabels] : []),
    ...cells,
    ...(note === '' ? [] : [text(note, margin.left, margin.top + height + 20, 'start')]),
    '</svg>',
  ].join('\n');
}

function attributes(values: Readonly<Record<string, number>>): string {
  return Object.entries(values)
    .map(([name, value]) => `${name}="${round(value)}"`)
    .join(' ');
}

function text(content: string, x: number, y: number, anchor: 'start' | 'middle' | 'end'): string {
  return `<text ${attributes({ x, y })} text-anchor="${anchor}" dominant-baseline="middle">${escaped(content)}</text>`;
}

/** Returns a colour that is light enough for black text. */
function colourOf(index: number, count: number): string {
  return `hsl(${Math.round((index * 360) / Math.max(1, count))} 65% 78%)`;
}

function round(value: number): number {
  return Math.round(value * 10) / 10;
}

/** Escapes a text, because users choose the names of axes. */
function escaped(content: string): string {
  return content.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;');
}
