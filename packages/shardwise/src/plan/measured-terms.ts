import { type MeasurableTerm, measurableTerms } from '@shardwise/planner';
import { representativeStep } from '../report/timeline-chart.ts';
import type { RankProfile } from '../run-state/rank-profile.ts';
import type { RunState } from '../run-state/run-state.ts';
import type { Timeline, TimelineEntry } from '../run-state/run-message.ts';

/** The seconds of terms of a step, as far as they are known. */
export type MeasuredTerms = Partial<Record<MeasurableTerm, number>>;

/**
 * Reads the terms of a step from what ranks have recorded: messages, transfers and the waits for other stages from the
 * timelines of a step of about `usualMs`, and forward and backward passes, recomputation and the optimizer from the
 * profiles, if all ranks have been profiled. Figures are means over the ranks.
 */
export function measuredTerms(
  { head, timelines, profiles }: Pick<RunState, 'head' | 'timelines' | 'profiles'>,
  usualMs: number,
): MeasuredTerms {
  const ofStep = representativeStep(timelines, head.worldSize, usualMs);
  return {
    ...meanOf(ofStep.map(exposedTerms)),
    ...(profiles.size < head.worldSize ? {} : meanOf([...profiles.values()].map(computedTerms))),
  };
}

function meanOf(terms: readonly MeasuredTerms[]): MeasuredTerms {
  const sums: MeasuredTerms = {};
  for (const term of measurableTerms) {
    const known = terms.flatMap((each) => each[term] ?? []);
    if (known.length > 0) sums[term] = known.reduce((sum, each) => sum + each, 0) / terms.length;
  }
  return sums;
}

function computedTerms({ rows, betweenMs, steps }: RankProfile): MeasuredTerms {
  const seconds = (phases: readonly string[]): number =>
    rows.reduce((sum, { phase, ms }) => sum + (phases.includes(phase) ? ms : 0), 0) / steps / 1000;
  return {
    // A prediction counts the calls of programs as part of the passes.
    compute: seconds(['forward', 'backward']) + betweenMs / steps / 1000,
    recompute: seconds(['recomputation']),
    optimizer: seconds(['optimizer']),
  };
}

/** A stretch of time in which a rank may have to wait. */
interface Wait {
  readonly startMs: number;
  readonly endMs: number;
  readonly term: MeasurableTerm | 'other';
}

/**
 * The time in which a rank did nothing but wait for messages, by what they were for. While it waits for several of them,
 * the time counts for the one that began first.
 */
export function exposedTerms(timeline: Timeline): MeasuredTerms {
  const { events } = timeline;
  const busy = joined(
    events.filter(({ category }) => ['compute', 'graph', 'data'].includes(category)),
  );
  const waits: readonly Wait[] = [...events.flatMap(waitOf), ...betweenStages(timeline)].toSorted(
    (a, b) => a.startMs - b.startMs,
  );
  const exposed = new Map<Wait['term'], number>(
    waits.map(({ term }) => [term, 0] satisfies [Wait['term'], number]),
  );
  let reached = timeline.startMs;
  let next = 0;
  for (const { startMs, endMs, term } of waits) {
    const from = Math.max(reached, startMs);
    if (endMs <= from) continue;
    reached = endMs;
    let ms = endMs - from;
    while ((busy[next]?.endMs ?? Infinity) <= from) next++;
    for (let at = next; (busy[at]?.startMs ?? Infinity) < endMs; at++) {
      const span = busy[at];
      if (span === undefined) break;
      ms -= Math.min(endMs, span.endMs) - Math.max(from, span.startMs);
    }
    exposed.set(term, (exposed.get(term) ?? 0) + ms / 1000);
  }
  exposed.delete('other');
  return Object.fromEntries(exposed);
}

function endOf({ startMs, durationMs }: TimelineEntry): number {
  return startMs + durationMs;
}

/** Spans that do not overlap, in their order. */
function joined(events: readonly TimelineEntry[]): readonly { startMs: number; endMs: number }[] {
  const spans: { startMs: number; endMs: number }[] = [];
  for (const event of events.toSorted((a, b) => a.startMs - b.startMs)) {
    const last = spans.at(-1);
    if (last !== undefined && event.startMs <= last.endMs) {
      last.endMs = Math.max(last.endMs, endOf(event));
    } else spans.push({ startMs: event.startMs, endMs: endOf(event) });
  }
  return spans;
}

function waitOf(event: TimelineEntry): readonly Wait[] {
  const span = { startMs: event.startMs, endMs: endOf(event) };
  if (event.category === 'transfer') return [{ ...span, term: 'offload' }];
  return event.category === 'collective' ? [{ ...span, term: termOf(event) }] : [];
}

/** The terms of the axes that plans name. */
const termOfAxis: ReadonlyMap<string, MeasurableTerm> = new Map([
  ['dp', 'dataParallel'],
  ['replicas', 'dataParallel'],
  ['ep', 'dataParallel'],
  ['tp', 'tensorParallel'],
  ['cp', 'contextParallel'],
  ['pp', 'pipelineParallel'],
]);

function termOf({ name, axis = '' }: TimelineEntry): Wait['term'] {
  // Ranks of experts exchange tokens; what they sum are gradients of the other parameters.
  if (axis === 'ep' && name.startsWith('allToAll')) return 'expertParallel';
  return termOfAxis.get(axis) ?? 'other';
}

/** The time between the actions of a rank of a pipeline, and before the first one of the step. */
function betweenStages({ events, startMs }: Timeline): readonly Wait[] {
  let endMs = startMs;
  return events
    .filter(({ category }) => category === 'stage')
    .toSorted((a, b) => a.startMs - b.startMs)
    .map((stage): Wait => {
      const wait: Wait = { startMs: endMs, endMs: stage.startMs, term: 'pipelineParallel' };
      endMs = endOf(stage);
      return wait;
    });
}
