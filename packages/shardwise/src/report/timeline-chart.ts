import type { Timeline, TimelineEntry } from '../run-state/run-message.ts';
import { formatMilliseconds } from '../text/format.ts';
import { pixel } from './chart-frame.ts';
import { categoryColours, stageColour } from './colours.ts';
import { escapeHtml } from '../text/escape-html.ts';
import { linearScale } from './scale.ts';
import type { SimulatedStages } from './simulated-stages.ts';

const WIDTH = 1080;
const LEFT = 170;
const RIGHT = 14;
const TOP = 6;
const LANE = 24;
const GAP = 4;
const RANK_GAP = 12;
/** The greatest number of boxes in a lane. More boxes would make the page slow and show nothing more. */
const MAX_BOXES = 1500;

/** Whether an event runs beside the rank's own thread. */
const isBeside = ({ category }: TimelineEntry): boolean =>
  category === 'collective' || category === 'transfer';

interface Lane {
  readonly name: string;
  readonly of: (timeline: Timeline) => readonly TimelineEntry[];
  /** Whether the lane is drawn even if the step has no events for it. */
  readonly isAlways: boolean;
}

/**
 * Returns the lanes of a rank: the actions of the stages of a pipeline, the same actions in the simulation, what the
 * rank's own thread does, and what runs beside it.
 */
function lanesOf(timelines: readonly Timeline[], simulated: SimulatedStages | null): Lane[] {
  const holding = (holds: (event: TimelineEntry) => boolean): Lane['of'] => {
    return ({ events }) => events.filter(holds);
  };
  const lanes: Lane[] = [
    { name: 'stages', of: holding(({ category }) => category === 'stage'), isAlways: false },
    { name: 'simulated', of: ({ rank }) => simulated?.events.get(rank) ?? [], isAlways: false },
    {
      name: 'compute',
      of: holding((event) => event.category !== 'stage' && !isBeside(event)),
      isAlways: true,
    },
    { name: 'communication', of: holding(isBeside), isAlways: true },
  ];
  return lanes.filter(
    ({ of, isAlways }) => isAlways || timelines.some((own) => of(own).length > 0),
  );
}

/** Draws one step of every rank on one clock. `timelines` belong to the same step and are ordered by rank. */
export function timelineChart(
  timelines: readonly Timeline[],
  simulated: SimulatedStages | null = null,
): string {
  const lanes = lanesOf(timelines, simulated);
  const all = simulated === null ? [] : [...simulated.events.values()].flat();
  const start = Math.min(...timelines.map(({ startMs }) => startMs));
  const end = Math.max(
    ...timelines.map(({ endMs }) => endMs),
    ...all.map(({ startMs, durationMs }) => startMs + durationMs),
  );
  const x = linearScale([0, end - start], [LEFT, WIDTH - RIGHT], 9);
  const rankHeight = lanes.length * (LANE + GAP) - GAP + RANK_GAP;
  const bottom = TOP + timelines.length * rankHeight - RANK_GAP + 6;
  const rows = timelines.map((timeline, index) => {
    const top = TOP + index * rankHeight;
    const laneRows = lanes.map(({ name, of }, lane) => {
      const y = top + lane * (LANE + GAP);
      // The longest events come first, so that an event within another one is drawn on top of it.
      const drawn = of(timeline)
        .toSorted((a, b) => b.durationMs - a.durationMs)
        .slice(0, MAX_BOXES);
      const boxes = drawn.map((event) => box(event, y, start, x));
      return `<rect class="lane" x="${LEFT}" y="${y}" width="${WIDTH - RIGHT - LEFT}" height="${LANE}"/><text class="tick" x="${LEFT - 10}" y="${y + LANE / 2}" dy="0.32em" text-anchor="end">${name}</text>${boxes.join('')}`;
    });
    const middle = top + (rankHeight - RANK_GAP) / 2;
    return `<text class="rank" x="4" y="${middle}" dy="0.32em">rank ${timeline.rank}</text>${laneRows.join('')}`;
  });
  const ticks = x.ticks.map((tick) => {
    const at = pixel(x(tick));
    return `<line class="grid" x1="${at}" x2="${at}" y1="${TOP}" y2="${bottom}"/><text class="tick" x="${at}" y="${bottom + 16}" text-anchor="middle">${tick} ms</text>`;
  });
  return `<svg class="chart" viewBox="0 0 ${WIDTH} ${bottom + 24}" role="img" aria-label="Timeline of one step">${ticks.join('')}${rows.join('')}</svg>`;
}

function box(
  { name, category, startMs, durationMs, ...facts }: TimelineEntry,
  y: number,
  origin: number,
  x: (ms: number) => number,
): string {
  const left = Math.max(LEFT, x(startMs - origin));
  const right = Math.max(left + 0.6, x(startMs - origin + durationMs));
  const tip = [name, formatMilliseconds(durationMs), ...wordsOf(facts)];
  const colour = category === 'stage' ? stageColour(name) : categoryColours[category];
  const label =
    category === 'stage' && right - left > 8 * name.length
      ? `<text class="label" x="${pixel((left + right) / 2)}" y="${y + LANE / 2}" dy="0.32em" text-anchor="middle">${escapeHtml(name)}</text>`
      : '';
  return `<rect class="box" style="fill:${colour}" x="${pixel(left)}" y="${y}" width="${pixel(right - left)}" height="${LANE}" rx="1.5" data-tip="${escapeHtml(tip.join('\n'))}"/>${label}`;
}

function wordsOf({
  detail,
  bytes,
  axis,
  ranks,
}: Pick<TimelineEntry, 'detail' | 'bytes' | 'axis' | 'ranks'>): readonly string[] {
  return [
    ...(detail === undefined ? [] : [detail]),
    ...(bytes === undefined ? [] : [`${bytes} bytes`]),
    ...(axis === undefined ? [] : [`on ${axis} of ${ranks}`]),
  ];
}

/**
 * Returns the timelines of the step whose duration is closest to the usual one, among the steps that all ranks
 * recorded. Returns an empty list if there is no such step.
 */
export function representativeStep(
  timelines: readonly Timeline[],
  worldSize: number,
  usualMs: number,
): readonly Timeline[] {
  const steps = Map.groupBy(timelines, ({ step }) => step);
  const complete = [...steps.values()].filter((ofStep) => ofStep.length === worldSize);
  const distance = (ofStep: readonly Timeline[]): number =>
    Math.abs(Math.max(...ofStep.map(({ startMs, endMs }) => endMs - startMs)) - usualMs);
  const [nearest = []] = complete.toSorted((a, b) => distance(a) - distance(b));
  return nearest.toSorted((a, b) => a.rank - b.rank);
}
