import { chartFrame, margin, pixel } from '../report/chart-frame.ts';
import { escapeHtml } from '../text/escape-html.ts';
import { formatTick, linearScale, type Scale } from '../report/scale.ts';
import { formatBytes, formatMilliseconds } from '../text/format.ts';
import { memoryCategories, type MemoryCategory, type MemoryProfile } from './memory-profile.ts';

/** CSS colours of the page. */
export const categoryColours: Readonly<Record<MemoryCategory, string>> = {
  parameters: 'var(--blue)',
  gradients: 'var(--orange)',
  'optimizer states': 'var(--green)',
  activations: 'var(--violet)',
  temporary: 'var(--red)',
  'inputs and buffers': 'var(--teal)',
  reserved: 'color-mix(in srgb,var(--grey) 35%,var(--card))',
};

const SIZE = { width: 1080, height: 320 } as const;
/** More points than pixels would show nothing more. */
const MAX_POINTS = 1000;
/** The blocks whose lives are drawn, and the least share of the peak that they have. */
const MAX_BARS = 40;
const MIN_SHARE = 0.001;

type Point = MemoryProfile['points'][number];

/** Draws the bytes of each category over time, with the peak. */
export function memoryChart({ points, peak, durationMs, rank }: MemoryProfile): string {
  const [unit, unitBytes] = unitOf(peak.bytes);
  const bottom = SIZE.height - margin.bottom;
  const x = linearScale([0, durationMs], [margin.left, SIZE.width - margin.right], 10);
  const y = linearScale([0, (peak.bytes / unitBytes) * 1.08], [bottom, margin.top], 6);
  const shown = thin(points, durationMs, peak.ms);
  const layers = memoryCategories.map((category, index) => {
    const edge = (below: number) => (point: Point) => sumOf(point.bytes.slice(0, below));
    const up = staircase(shown, durationMs, edge(index + 1));
    const down = staircase(shown, durationMs, edge(index)).toReversed();
    const place = ([ms, bytes]: readonly [number, number]): string =>
      `${pixel(x(ms))} ${pixel(y(bytes / unitBytes))}`;
    return `<path style="fill:${categoryColours[category]}" d="M${[...up, ...down].map(place).join('L')}Z"/>`;
  });
  const at = x(peak.ms);
  const isRight = at > SIZE.width / 2;
  const mark = `<line style="stroke:var(--text)" stroke-dasharray="2 3" x1="${pixel(at)}" x2="${pixel(at)}" y1="${margin.top}" y2="${bottom}"/><text style="fill:var(--text)" x="${pixel(at + (isRight ? -6 : 6))}" y="${margin.top + 8}" text-anchor="${isRight ? 'end' : 'start'}">peak ${escapeHtml(formatBytes(peak.bytes))}</text>`;
  const fromTop = memoryCategories.toReversed();
  return chartFrame({
    size: SIZE,
    label: `Memory of rank ${rank} over time`,
    x,
    y,
    formatX: (ms) => formatTick(ms, 'ms'),
    formatY: (value) => formatTick(value, unit),
    xTitle: 'time since the timeline began',
    hover: {
      series: fromTop.map((category) => [category, categoryColours[category]] as const),
      points: shown.map(({ ms, bytes }) => ({
        x: Math.round(x(ms)),
        heading: `${formatMilliseconds(ms)}: ${formatBytes(sumOf(bytes))}`,
        values: bytes.toReversed().map((each) => (each === 0 ? null : formatBytes(each))),
      })),
    },
    body: `${layers.join('')}${mark}`,
  });
}

const [BAR, GAP, TOP, LABEL] = [15, 3, 6, 210] as const;

/** Draws when the largest blocks lay in memory. A parameter and its states are there all the time, so they are left out. */
export function blocksChart({ blocks, durationMs, rank, peak }: MemoryProfile): string {
  const shown = blocks
    .filter(({ bytes }) => bytes >= MIN_SHARE * peak.bytes)
    .filter(({ fromMs, toMs }) => toMs - fromMs < 0.95 * durationMs)
    .slice(0, MAX_BARS)
    .toSorted((a, b) => a.fromMs - b.fromMs);
  const bottom = TOP + shown.length * (BAR + GAP);
  const x = linearScale([0, durationMs], [LABEL, SIZE.width - margin.right], 9);
  const bars = shown.map(({ bytes, category, module, operation, fromMs, toMs }, index) => {
    const y = TOP + index * (BAR + GAP);
    const name = module === '' ? '(no module)' : module;
    const tip = `${name}: ${operation}\n${formatBytes(bytes)}, ${category}\n${formatMilliseconds(fromMs)} to ${formatMilliseconds(toMs)}`;
    const width = Math.max(1, x(toMs) - x(fromMs));
    const label = `${name} ${operation.split(' ')[0] ?? ''}`;
    return `<text class="tick" x="${LABEL - 8}" y="${y + BAR / 2}" dy="0.32em" text-anchor="end">${escapeHtml(shortened(label))}</text><rect class="box" style="fill:${categoryColours[category]}" x="${pixel(x(fromMs))}" y="${y}" width="${pixel(width)}" height="${BAR}" rx="1.5" data-tip="${escapeHtml(tip)}"/>`;
  });
  return `<svg class="chart" viewBox="0 0 ${SIZE.width} ${bottom + 24}" role="img" aria-label="The largest blocks of rank ${rank} over time">${axis(x, bottom)}${bars.join('')}</svg>`;
}

function axis(x: Scale, bottom: number): string {
  const ticks = x.ticks.map((tick) => {
    const at = pixel(x(tick));
    return `<line class="grid" x1="${at}" x2="${at}" y1="${TOP}" y2="${bottom}"/><text class="tick" x="${at}" y="${bottom + 16}" text-anchor="middle">${escapeHtml(formatTick(tick, 'ms'))}</text>`;
  });
  return ticks.join('');
}

function shortened(text: string): string {
  return text.length > 34 ? `…${text.slice(-33)}` : text;
}

/** The corners of a line that keeps its value until the next point. */
function staircase(
  points: readonly Point[],
  endMs: number,
  valueOf: (point: Point) => number,
): (readonly [ms: number, bytes: number])[] {
  return points.flatMap((point, index) => {
    const value = valueOf(point);
    return [[point.ms, value] as const, [points[index + 1]?.ms ?? endMs, value] as const];
  });
}

/** Of the points that fall on one pixel, keeps the one with the most bytes. The peak is kept in any case. */
function thin(points: readonly Point[], durationMs: number, peakMs: number): readonly Point[] {
  if (points.length <= MAX_POINTS) return points;
  const columns = Map.groupBy(points, ({ ms }) => Math.floor((MAX_POINTS * ms) / durationMs));
  return [...columns.values()].flatMap((column) => {
    const peak = column.find(({ ms }) => ms === peakMs);
    const [first, ...rest] = column;
    if (first === undefined) return [];
    return peak ?? rest.reduce((a, b) => (sumOf(b.bytes) > sumOf(a.bytes) ? b : a), first);
  });
}

function sumOf(bytes: readonly number[]): number {
  return bytes.reduce((sum, each) => sum + each, 0);
}

/** The unit of the axis, and the number of bytes in one unit. */
function unitOf(mostBytes: number): readonly [unit: string, unitBytes: number] {
  if (mostBytes >= 2 ** 30) return ['GiB', 2 ** 30];
  return mostBytes >= 2 ** 20 ? ['MiB', 2 ** 20] : ['KiB', 2 ** 10];
}
