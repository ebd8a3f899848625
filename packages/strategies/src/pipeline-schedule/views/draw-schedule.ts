import { computeLetters } from '../actions/action-text.ts';
import type { ComputeKind } from '../actions/action.ts';
import {
  type CellPart,
  formatNumber,
  kindNames,
  type PictureCell,
  type PictureRow,
  type SchedulePanel,
  type SchedulePicture,
} from './schedule-picture.ts';

/** The sizes of the parts of the image, in pixels. */
const size = {
  margin: 24,
  labels: 64,
  plot: 1040,
  notes: 96,
  row: 30,
  gap: 5,
  heading: 30,
  legend: 34,
  axis: 26,
  title: 56,
};
const CHARACTER_WIDTH = 6.7;

const kinds = ['forward', 'backward', 'inputGradient', 'weightGradient'] as const;

/**
 * Draws an SVG image with colours for light and for dark pages. Kinds differ by letter, pattern and colour. The later
 * stages of a rank have dashes below the label, and every other stage is darker.
 */
export function drawSchedule(picture: SchedulePicture): string {
  const { title, panels, endMs } = picture;
  const perMs = size.plot / Math.max(endMs, Number.MIN_VALUE);
  const lines: string[] = [];
  let y = size.margin + size.title;
  for (const panel of panels) {
    lines.push(...drawPanel(panel, perMs, y));
    y += size.heading + panel.rows.length * (size.row + size.gap);
  }
  const hasSeveralStages = panels.some(({ rows }) =>
    rows.some(({ cells }) => cells.some(({ parts }) => parts.some((part) => part.localStage > 0))),
  );
  const rowsTop = size.margin + size.title;
  lines.unshift(...drawAxis(endMs, perMs, rowsTop, y));
  const width = 2 * size.margin + size.labels + size.plot + size.notes;
  const height = y + size.axis + size.margin;
  return [
    `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${width} ${round(height)}" width="${width}" height="${round(height)}" role="img" font-family="system-ui, sans-serif" font-size="12">`,
    `<title>${escaped(title)}</title>`,
    styles,
    patterns,
    '<rect class="page" width="100%" height="100%"/>',
    text(title, size.margin, size.margin + 8, 'start', 'title'),
    ...drawLegend(usedKinds(panels), hasSeveralStages, size.margin, size.margin + size.legend),
    ...lines,
    '</svg>',
  ].join('\n');
}

function drawPanel({ heading, rows }: SchedulePanel, perMs: number, top: number): string[] {
  const left = size.margin + size.labels;
  return [
    text(heading, left, top + size.heading / 2 + 2, 'start', 'heading'),
    ...rows.flatMap((row, index) => {
      const y = top + size.heading + index * (size.row + size.gap);
      return drawRow(row, perMs, left, y);
    }),
  ];
}

function drawRow(
  { label, note, cells }: PictureRow,
  perMs: number,
  left: number,
  y: number,
): string[] {
  const middle = y + size.row / 2;
  return [
    `<rect class="track" x="${left}" y="${round(y)}" width="${size.plot}" height="${size.row}"/>`,
    text(label, left - 10, middle, 'end', 'muted'),
    text(note, left + size.plot + 10, middle, 'start', 'muted'),
    ...cells.flatMap((cell) => drawCell(cell, label, perMs, left, y)),
  ];
}

/** Draws a cell. The halves of a pair stand one above the other. */
function drawCell(
  { startMs, endMs, parts }: PictureCell,
  label: string,
  perMs: number,
  left: number,
  top: number,
): string[] {
  const x = left + startMs * perMs;
  const width = Math.max(0.5, (endMs - startMs) * perMs);
  const height = size.row / parts.length;
  const what = parts.map((part) => `${kindNames[part.kind]} ${part.label}`).join(' beside ');
  const tip = `<title>${escaped(`${label}: ${what}, ${formatNumber(startMs)} to ${formatNumber(endMs)} ms`)}</title>`;
  return parts.map((part, index) => {
    const y = top + index * height;
    const box = `x="${round(x)}" y="${round(y)}" width="${round(width)}" height="${round(height)}"`;
    const pattern = patternOf(part.kind);
    const overlay = pattern === undefined ? '' : `<rect ${box} fill="url(#${pattern})"/>`;
    const marks = stageMarks(part.localStage, x + width / 2, y + height - 4, width);
    return `<g>${tip}<rect class="cell ${classOf(part)}" ${box}/>${overlay}${marks}${cellLabel(part, x, y, width, height)}</g>`;
  });
}

/** Draws one dash for each stage of the rank that comes before this one, as far as there is room. */
function stageMarks(localStage: number, middle: number, y: number, width: number): string {
  const shown = Math.min(localStage, Math.floor((width - 1) / 6));
  return Array.from({ length: Math.max(0, shown) }, (_, index) => {
    const x = middle + (index - shown / 2) * 6 + 1;
    return `<rect class="dash" x="${round(x)}" y="${round(y)}" width="4" height="2"/>`;
  }).join('');
}

/** Draws the longest form of the label that fits. */
function cellLabel(
  { label, shortLabels }: CellPart,
  x: number,
  y: number,
  width: number,
  height: number,
): string {
  const fitting = [label, ...shortLabels].find(
    (content) => content.length * CHARACTER_WIDTH + 3 <= width,
  );
  if (fitting === undefined) return '';
  return text(fitting, x + width / 2, y + height / 2 + 0.5, 'middle', 'label');
}

function drawAxis(endMs: number, perMs: number, top: number, bottom: number): string[] {
  const left = size.margin + size.labels;
  return ticksOf(endMs).flatMap((ms) => {
    const x = round(left + ms * perMs);
    return [
      `<line class="tick" x1="${x}" x2="${x}" y1="${round(top + size.heading)}" y2="${round(bottom + 2)}"/>`,
      text(`${formatNumber(ms)} ms`, x, bottom + 14, 'middle', 'muted'),
    ];
  });
}

/** Returns about ten round times for the axis. */
function ticksOf(endMs: number): number[] {
  if (!(endMs > 0)) return [0];
  const rough = endMs / 10;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((factor) => factor * power).find((each) => each >= rough) ?? rough;
  return Array.from({ length: Math.floor(endMs / step + 1e-9) + 1 }, (_, index) => index * step);
}

function drawLegend(
  used: readonly ComputeKind[],
  hasSeveralStages: boolean,
  left: number,
  y: number,
): string[] {
  let x = left + size.labels;
  const numbers = 'behind the letter: microbatch';
  return [
    ...used.map((kind) => {
      const name = kindNames[kind];
      const box = `x="${round(x)}" y="${round(y - 8)}" width="22" height="16"`;
      const pattern = patternOf(kind);
      const overlay = pattern === undefined ? '' : `<rect ${box} fill="url(#${pattern})"/>`;
      const drawn = `<rect class="cell ${kind}-0" ${box}/>${overlay}${text(computeLetters[kind], x + 11, y + 0.5, 'middle', 'label')}${text(name, x + 30, y, 'start', 'muted')}`;
      x += 30 + name.length * CHARACTER_WIDTH + 24;
      return drawn;
    }),
    text(
      hasSeveralStages
        ? `${numbers}; dashes below it: stages of the rank that come before`
        : numbers,
      x,
      y,
      'start',
      'muted',
    ),
  ];
}

function usedKinds(panels: readonly SchedulePanel[]): ComputeKind[] {
  const used = new Set(
    panels.flatMap(({ rows }) =>
      rows.flatMap(({ cells }) => cells.flatMap(({ parts }) => parts.map(({ kind }) => kind))),
    ),
  );
  return kinds.filter((kind) => used.has(kind));
}

function classOf({ kind, localStage }: CellPart): string {
  return `${kind}-${localStage % 2}`;
}

function patternOf(kind: ComputeKind): string | undefined {
  if (kind === 'inputGradient') return 'stripes';
  return kind === 'weightGradient' ? 'dots' : undefined;
}

const patterns = [
  '<defs>',
  '<pattern id="stripes" width="7" height="7" patternUnits="userSpaceOnUse" patternTransform="rotate(45)"><rect class="mark" width="1.4" height="7"/></pattern>',
  '<pattern id="dots" width="6" height="6" patternUnits="userSpaceOnUse"><circle class="mark" cx="3" cy="3" r="1"/></pattern>',
  '</defs>',
].join('');

/** The first and second colour of a stage, on light and on dark pages. */
const colours: Readonly<Record<ComputeKind, readonly [light: string[], dark: string[]]>> = {
  forward: [
    ['#b6d4fe', '#7db1f7'],
    ['#1f4a86', '#2f68b5'],
  ],
  backward: [
    ['#b5e3c0', '#7cc690'],
    ['#1c5a36', '#2a7d4b'],
  ],
  inputGradient: [
    ['#b5e3c0', '#7cc690'],
    ['#1c5a36', '#2a7d4b'],
  ],
  weightGradient: [
    ['#ffe0a3', '#f2bf5e'],
    ['#6a4c0c', '#8f6916'],
  ],
};

function cellColours(theme: 0 | 1): string {
  return kinds
    .flatMap((kind) => colours[kind][theme].map((fill, index) => `.${kind}-${index}{fill:${fill}}`))
    .join('');
}

const styles = [
  '<style>',
  '.page{fill:#fff}.track{fill:#eef1f4}.title{font-size:16px;font-weight:600;fill:#1f2328}.heading{font-weight:600;fill:#1f2328}',
  '.muted{fill:#57606a}.label{fill:#0b1f33;font-size:11px}.tick{stroke:#d0d7de}.cell{stroke:#fff;stroke-width:1}.mark{fill:#0b1f33;opacity:.22}.dash{fill:#0b1f33}',
  cellColours(0),
  '@media (prefers-color-scheme: dark){',
  '.page{fill:#0d1117}.track{fill:#1a212b}.title,.heading{fill:#e6edf3}.muted{fill:#9198a1}.label{fill:#f4f8fc}',
  '.tick{stroke:#30363d}.cell{stroke:#0d1117}.mark{fill:#fff;opacity:.2}.dash{fill:#f4f8fc}',
  cellColours(1),
  '}</style>',
].join('');

function text(
  content: string,
  x: number,
  y: number,
  anchor: 'start' | 'middle' | 'end',
  style: string,
): string {
  if (content === '') return '';
  return `<text class="${style}" x="${round(x)}" y="${round(y)}" text-anchor="${anchor}" dominant-baseline="middle">${escaped(content)}</text>`;
}

function round(value: number): number {
  return Math.round(value * 10) / 10;
}

/** Escapes a text, because users choose the names of schedules. */
function escaped(content: string): string {
  return content.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;');
}
