import { pixel } from '../report/chart-frame.ts';
import { escapeHtml } from '../text/escape-html.ts';
import { formatMilliseconds } from '../text/format.ts';
import { percent } from './advice.ts';
import { phaseColours } from './flame-graph.ts';
import { operations, type ProfileSummary } from './summarize.ts';

const [WIDTH, HEIGHT] = [520, 300];
const [LEFT, RIGHT, TOP, BOTTOM] = [52, 12, 10, 34];

/**
 * Draws operations by their intensity and their speed, under what the device can do at most. Both axes are logarithmic.
 * Returns undefined if no operation computes products, or the peak is not known.
 */
export function rooflineChart({ rows, roofline, stepMs }: ProfileSummary): string | undefined {
  const { f32, half, bytesPerSecond } = roofline;
  const dots = operations(rows)
    .filter(({ flops, bytes, ms }) => flops > 0 && bytes > 0 && ms > 0)
    .map((row) => ({
      ...row,
      intensity: row.flops / row.bytes,
      speed: (1000 * row.flops) / row.ms,
    }));
  if (f32 === undefined || bytesPerSecond === undefined || dots.length === 0) return undefined;
  const peaks = [
    ['f32', f32] as const,
    ...(half === undefined || half === f32 ? [] : [['16 bits', half] as const]),
  ];
  const ridges = peaks.map(([, peak]) => peak / bytesPerSecond);
  const intensities = [...dots.map(({ intensity }) => intensity), ...ridges];
  const x = logScale(
    Math.min(...intensities) / 3,
    Math.max(...intensities) * 4,
    LEFT,
    WIDTH - RIGHT,
  );
  const top = Math.max(...peaks.map(([, peak]) => peak));
  const lowest = Math.min(...dots.map(({ speed }) => speed), x.least * bytesPerSecond);
  const y = logScale(lowest / 2, top * 2, HEIGHT - BOTTOM, TOP);
  const lines = peaks.map(([name, peak]) => {
    const ridge = peak / bytesPerSecond;
    const points = [
      [x.least, x.least * bytesPerSecond],
      [ridge, peak],
      [x.most, peak],
    ].map(([at = 0, speed = 0]) => `${pixel(x.at(at))},${pixel(y.at(speed))}`);
    return `<polyline class="line" stroke="var(--soft)" points="${points.join(' ')}"/><text x="${WIDTH - RIGHT}" y="${pixel(y.at(peak) - 5)}" text-anchor="end">${name}: ${(peak / 1e9).toFixed(0)} GFLOP/s</text>`;
  });
  const ticks = [
    ...x.ticks.map(
      (tick) =>
        `<line class="grid" x1="${pixel(x.at(tick))}" x2="${pixel(x.at(tick))}" y1="${TOP}" y2="${HEIGHT - BOTTOM}"/><text x="${pixel(x.at(tick))}" y="${HEIGHT - BOTTOM + 14}" text-anchor="middle">${tick}</text>`,
    ),
    ...y.ticks.map(
      (tick) =>
        `<line class="grid" x1="${LEFT}" x2="${WIDTH - RIGHT}" y1="${pixel(y.at(tick))}" y2="${pixel(y.at(tick))}"/><text x="${LEFT - 6}" y="${pixel(y.at(tick))}" dy="0.32em" text-anchor="end">${tick / 1e9}</text>`,
    ),
  ];
  const circles = dots.map(({ op, phase, ms, intensity, speed, roofMs }) => {
    const tip = `${op} (${phase})\n${formatMilliseconds(ms)} a step, ${(speed / 1e9).toFixed(1)} GFLOP/s, ${percent(roofMs / ms)} of the roof`;
    const radius = 4 + 10 * Math.sqrt(ms / stepMs);
    return `<circle class="box" cx="${pixel(x.at(intensity))}" cy="${pixel(y.at(speed))}" r="${radius.toFixed(1)}" style="fill:${phaseColours[phase]};fill-opacity:.75" data-tip="${escapeHtml(tip)}"/>`;
  });
  return `<svg class="chart" viewBox="0 0 ${WIDTH} ${HEIGHT}" role="img" aria-label="Roofline">${ticks.join('')}${lines.join('')}${circles.join('')}<text x="${(LEFT + WIDTH) / 2}" y="${HEIGHT - 4}" text-anchor="middle">FLOP per byte</text><text transform="translate(12 ${HEIGHT / 2}) rotate(-90)" text-anchor="middle">GFLOP/s</text></svg>`;
}

interface LogScale {
  readonly least: number;
  readonly most: number;
  readonly at: (value: number) => number;
  /** The powers of ten. */
  readonly ticks: readonly number[];
}

function logScale(least: number, most: number, from: number, to: number): LogScale {
  const span = Math.log(most / least);
  const first = Math.ceil(Math.log10(least));
  const count = Math.floor(Math.log10(most)) - first + 1;
  return {
    least,
    most,
    at: (value) => from + ((to - from) * Math.log(value / least)) / span,
    ticks: Array.from({ length: Math.max(0, count) }, (_, index) => 10 ** (first + index)),
  };
}
