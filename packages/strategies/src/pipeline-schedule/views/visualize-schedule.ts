import { checkOptions, option, type OptionRules } from '@shardwise/core/extend';
import { computationsOf, type Schedule, type StageEdge } from '../actions/schedule.ts';
import { scheduleError } from '../check/schedule-error.ts';
import type { ScheduleCosts } from '../simulation/schedule-costs.ts';
import { simulateSchedule, type TimedAction } from '../simulation/simulate-schedule.ts';
import { drawSchedule } from './draw-schedule.ts';
import { printSchedule } from './print-schedule.ts';
import { formatNumber, rowsOf, type SchedulePanel } from './schedule-picture.ts';

/** Options of `visualizeSchedule`. */
export interface VisualizeScheduleOptions {
  /** The format of the drawing. Default: 'text'. */
  readonly format?: 'text' | 'svg';
  /** The costs, as for `simulateSchedule`. */
  readonly costs?: ScheduleCosts;
  readonly edges?: readonly StageEdge[];
  /**
   * The measured times of each rank, in milliseconds of one clock for all ranks. They are drawn below the simulation on
   * the same scale. The first action begins at 0.
   */
  readonly measured?: readonly (readonly TimedAction[])[];
  /** The largest width of a text. Default: 160. */
  readonly columns?: number;
}

const visualizeScheduleRules: OptionRules<VisualizeScheduleOptions> = {
  format: option.oneOf('text', 'svg'),
  costs: option.object<ScheduleCosts>('costs of a schedule'),
  edges: option.listOf(option.object<StageEdge>('an edge { from, to, gradient }')),
  measured: option.listOf(option.object<readonly TimedAction[]>('a list of actions with times')),
  columns: option.integer(20),
};

/**
 * Draws which rank does which action at which time, as text or as an SVG image. It draws the simulation and, if
 * measured times are given, these too.
 */
export function visualizeSchedule(
  schedule: Schedule,
  options: VisualizeScheduleOptions = {},
): string {
  checkOptions('visualizeSchedule', options, visualizeScheduleRules);
  const { costs, edges, measured } = options;
  const simulation = simulateSchedule(schedule, costs, edges);
  const panels: SchedulePanel[] = [
    {
      heading: headingOf('simulated', simulation.makespanMs, simulation.bubble),
      rows: rowsOf(
        schedule,
        simulation.ranks.map(({ actions }) => actions),
        (rank) => `live ${simulation.ranks[rank]?.peakMicrobatches}`,
      ),
    },
  ];
  let endMs = simulation.makespanMs;
  if (measured !== undefined) {
    const timed = fromZero(schedule, measured);
    const measuredMs = timed.flat().reduce((latest, each) => Math.max(latest, each.endMs), 0);
    const busyMs = timed.flat().reduce((sum, each) => sum + each.endMs - each.startMs, 0);
    const bubble = measuredMs === 0 ? 0 : 1 - busyMs / (measuredMs * schedule.ranks);
    panels.push({
      heading: headingOf('measured', measuredMs, bubble),
      rows: rowsOf(schedule, timed, () => ''),
    });
    endMs = Math.max(endMs, measuredMs);
  }
  const { name, stages, ranks, microbatches } = schedule;
  const title = `${name}: ${stages} stages on ${ranks} ranks, ${microbatches} microbatches`;
  const picture = { title, panels, endMs };
  return options.format === 'svg'
    ? drawSchedule(picture)
    : printSchedule(picture, options.columns ?? 160);
}

function headingOf(what: string, makespanMs: number, bubble: number): string {
  return `${what}: ${formatNumber(makespanMs)} ms, bubble ${Number((100 * bubble).toFixed(1))} %`;
}

/** Returns measured times relative to the first action. Throws ConfigError for times that do not fit the schedule. */
function fromZero(
  schedule: Schedule,
  measured: readonly (readonly TimedAction[])[],
): TimedAction[][] {
  if (measured.length !== schedule.ranks) {
    const found = `measured times of ${measured.length} ranks`;
    throw scheduleError(schedule, found, `Give times of each of the ${schedule.ranks} ranks`);
  }
  for (const [rank, own] of measured.entries()) {
    for (const [position, { action, startMs, endMs }] of own.entries()) {
      const place = `rank ${rank}, measured action ${position}`;
      const isTime = Number.isFinite(startMs) && Number.isFinite(endMs) && startMs <= endMs;
      if (!isTime) {
        const found = `${place} from ${startMs} to ${endMs} ms`;
        throw scheduleError(schedule, found, 'Give finite times, the end not before the start', {
          rank,
          position,
        });
      }
      const stray = computationsOf(action).find(
        (each) => schedule.rankOfStage[each.stage] !== rank,
      );
      if (stray === undefined) continue;
      const found = `${place} of stage ${stray.stage}, which this rank does not have`;
      throw scheduleError(schedule, found, 'Give the times of this schedule', { rank, position });
    }
  }
  const firstMs = measured
    .flat()
    .reduce((first, { startMs }) => Math.min(first, startMs), Infinity);
  return measured.map((own) =>
    own.map(({ action, startMs, endMs }) => ({
      action,
      startMs: startMs - firstMs,
      endMs: endMs - firstMs,
    })),
  );
}
