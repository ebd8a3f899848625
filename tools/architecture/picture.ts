import {
  directImports,
  importsOfRoom,
  inOrderOfImports,
  type PackageImports,
  roomsOf,
} from './import-edges.ts';
import { wayOfAStep } from './way-of-a-step.ts';

const WIDTH = 1120;
const MARGIN = 16;
const CHIP_HEIGHT = 24;
const CHIP_GAP = 6;
const CHARACTER = 7.2;
const TITLE_HEIGHT = 28;
const ROW_GAP = 46;
const BOX_GAP = 22;

interface Chip {
  readonly room: string;
  readonly x: number;
  readonly y: number;
  readonly width: number;
}

interface Box {
  readonly name: string;
  readonly x: number;
  readonly y: number;
  readonly width: number;
  readonly height: number;
  readonly chips: readonly Chip[];
}

/** Returns the picture of the packages as SVG: who imports whom, from top to bottom, and the numbers of a step's way. */
export function picture(packages: readonly PackageImports[]): string {
  const imports = new Map(packages.map(({ name, packages: own }) => [name, own]));
  const boxes = boxesOf(packages, imports);
  const bottom = Math.max(...boxes.map(({ y, height }) => y + height));
  const legend = legendOf(bottom + 34);
  const height = bottom + 34 + legend.height + MARGIN;
  const title = 'The packages of Shardwise, their folders, and the way of a training step';
  return `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${WIDTH} ${height}" width="${WIDTH}" height="${height}" role="img" aria-labelledby="title">
<title id="title">${title}</title>
<style>
  text { font: 12px ui-sans-serif, system-ui, sans-serif; fill: #1f2328; }
  .name { font-weight: 600; font-size: 14px; }
  .back { fill: #ffffff; }
  .box { fill: #f6f8fa; stroke: #d0d7de; }
  .chip { fill: #ffffff; stroke: #d0d7de; }
  .passed { fill: #ddf4ff; stroke: #54aeff; }
  .arrow { fill: none; stroke: #8c959f; stroke-width: 1.5; marker-end: url(#head); }
  .head { fill: #8c959f; }
  .mark { fill: #0969da; }
  .number { fill: #ffffff; font-size: 10px; font-weight: 600; text-anchor: middle; }
  @media (prefers-color-scheme: dark) {
    text { fill: #e6edf3; }
    .back { fill: #0d1117; }
    .box { fill: #161b22; stroke: #30363d; }
    .chip { fill: #0d1117; stroke: #30363d; }
    .passed { fill: #0c2d6b; stroke: #1f6feb; }
    .arrow { stroke: #6e7681; }
    .head { fill: #6e7681; }
    .mark { fill: #1f6feb; }
  }
</style>
<defs><marker id="head" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto"><path class="head" d="M0 0 8 4 0 8z"/></marker></defs>
<rect class="back" width="${WIDTH}" height="${height}"/>
${arrowsOf(boxes, imports)}
${boxes.map(drawBox).join('\n')}
${legend.drawing}
</svg>
`;
}

/** Places the packages in rows, such that each is above all that it imports, and near those that import it. */
function boxesOf(
  packages: readonly PackageImports[],
  imports: ReadonlyMap<string, readonly string[]>,
): readonly Box[] {
  const importers = ({ name }: PackageImports): readonly string[] =>
    packages.filter((other) => other.packages.includes(name)).map((other) => other.name);
  const depth = (name: string): number =>
    Math.max(0, ...(imports.get(name) ?? []).map((other) => depth(other) + 1));
  const top = Math.max(...packages.map(({ name }) => depth(name)));
  // A package that stands alone is beside the topmost one.
  const rowOf = (each: PackageImports): number =>
    each.packages.length + importers(each).length === 0 ? top : depth(each.name);
  const rows = Map.groupBy(packages, rowOf);
  const boxes: Box[] = [];
  let y = MARGIN;
  for (const level of [...rows.keys()].toSorted((first, second) => second - first)) {
    const center = (each: PackageImports): number => {
      const above = boxes.filter(({ name }) => importers(each).includes(name));
      return above.reduce((sum, box) => sum + box.x + box.width / 2, 0) / Math.max(above.length, 1);
    };
    const rooms = (each: PackageImports): number => roomsOf(each).length;
    const row = (rows.get(level) ?? []).toSorted(
      level === top
        ? (first, second) => rooms(second) - rooms(first)
        : (first, second) => center(first) - center(second),
    );
    const placed = placeRow(row, y);
    boxes.push(...placed);
    y = Math.max(...placed.map((box) => box.y + box.height)) + ROW_GAP;
  }
  return boxes;
}

/** Places a row. A row of few rooms is as wide as it needs to be, at the right; others take the whole width. */
function placeRow(row: readonly PackageImports[], y: number): readonly Box[] {
  const needs = row.map((each) => 90 + 22 * Math.max(roomsOf(each).length, 2));
  const space = WIDTH - 2 * MARGIN - BOX_GAP * (row.length - 1);
  const total = needs.reduce((sum, need) => sum + need, 0);
  const scale = total < space / 2 ? 1.2 : space / total;
  let x = WIDTH - MARGIN - total * scale - BOX_GAP * (row.length - 1);
  const placed = row.map((each, index) => {
    const width = (needs[index] ?? 0) * scale;
    const box = boxOf(each, x, y, width);
    x += width + BOX_GAP;
    return box;
  });
  const height = Math.max(...placed.map((box) => box.height));
  return placed.map((box) => ({ ...box, height }));
}

function boxOf(each: PackageImports, x: number, y: number, width: number): Box {
  const chips: Chip[] = [];
  let [left, top] = [x + 10, y + TITLE_HEIGHT];
  for (const room of roomsFromTop(each)) {
    const marks = wayOfAStep.filter((stop) => stop.package === each.name && stop.room === room);
    const own = room.length * CHARACTER + 16 + marks.length * 18;
    if (left > x + 10 && left + own > x + width - 10) {
      left = x + 10;
      top += CHIP_HEIGHT + CHIP_GAP;
    }
    chips.push({ room, x: left, y: top, width: own });
    left += own + CHIP_GAP;
  }
  const height = (chips.length === 0 ? TITLE_HEIGHT : top - y + CHIP_HEIGHT) + 10;
  return { name: each.name, x, y, width, height, chips };
}

/** Returns the rooms of a package, what imports others before what it imports. */
function roomsFromTop(each: PackageImports): readonly string[] {
  return inOrderOfImports(roomsOf(each), (room) => importsOfRoom(each, room)).toReversed();
}

function drawBox({ name, x, y, width, height, chips }: Box): string {
  return [
    `<rect class="box" x="${n(x)}" y="${n(y)}" width="${n(width)}" height="${n(height)}" rx="8"/>`,
    `<text class="name" x="${n(x + 10)}" y="${n(y + 19)}">${name}</text>`,
    ...chips.map((chip) => drawChip(name, chip)),
  ].join('\n');
}

function drawChip(name: string, { room, x, y, width }: Chip): string {
  const numbers = wayOfAStep.flatMap((stop, index) =>
    stop.package === name && stop.room === room ? [index + 1] : [],
  );
  const kind = numbers.length > 0 ? 'chip passed' : 'chip';
  return [
    `<rect class="${kind}" x="${n(x)}" y="${n(y)}" width="${n(width)}" height="${CHIP_HEIGHT}" rx="5"/>`,
    `<text x="${n(x + 8)}" y="${n(y + 16)}">${room}</text>`,
    ...numbers.map((number, index) =>
      mark(number, x + width - 12 - 18 * (numbers.length - 1 - index), y + 12),
    ),
  ].join('\n');
}

function mark(number: number, x: number, y: number): string {
  return `<circle class="mark" cx="${n(x)}" cy="${n(y)}" r="8"/><text class="number" x="${n(x)}" y="${n(y + 3.5)}">${number}</text>`;
}

/** Draws an arrow for each import that does not follow from others. */
function arrowsOf(boxes: readonly Box[], imports: ReadonlyMap<string, readonly string[]>): string {
  const arrows = boxes.flatMap((from) =>
    directImports(from.name, imports).flatMap((name) => {
      const to = boxes.find((box) => box.name === name);
      return to === undefined ? [] : [{ from, to }];
    }),
  );
  return arrows
    .map(({ from, to }) => {
      const leaving = arrows.filter((arrow) => arrow.from === from);
      const arriving = arrows.filter((arrow) => arrow.to === to);
      const at = (box: Box, index: number, count: number): number =>
        box.x + (box.width * (index + 1)) / (count + 1);
      const byCenter = (a: Box, b: Box): number => a.x + a.width / 2 - b.x - b.width / 2;
      const left = leaving.map((arrow) => arrow.to).toSorted(byCenter);
      const right = arriving.map((arrow) => arrow.from).toSorted(byCenter);
      const [x1, y1] = [at(from, left.indexOf(to), left.length), from.y + from.height];
      const [x2, y2] = [at(to, right.indexOf(from), right.length), to.y - 2];
      const bend = (y2 - y1) / 2;
      return `<path class="arrow" d="M${n(x1)} ${n(y1)}C${n(x1)} ${n(y1 + bend)} ${n(x2)} ${n(y2 - bend)} ${n(x2)} ${n(y2)}"/>`;
    })
    .join('\n');
}

function legendOf(y: number): { readonly drawing: string; readonly height: number } {
  const columns = 2;
  const rows = Math.ceil(wayOfAStep.length / columns);
  const lines = wayOfAStep.map((stop, index) => {
    const x = MARGIN + 8 + Math.floor(index / rows) * (WIDTH / columns);
    const top = y + 26 + (index % rows) * 22;
    return `${mark(index + 1, x, top - 4)}<text x="${n(x + 16)}" y="${n(top)}">${stop.room}: ${stop.what}</text>`;
  });
  const heading = `<text class="name" x="${MARGIN}" y="${n(y)}">The way of a training step</text>`;
  return { drawing: [heading, ...lines].join('\n'), height: 26 + rows * 22 };
}

function n(value: number): string {
  return String(Math.round(value * 10) / 10);
}
