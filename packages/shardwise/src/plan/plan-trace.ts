import { firstRankOf, runOfLayout, simulateRun, type TrainingPlan } from '@shardwise/planner';
import { chromeTrace } from '../report/chrome-trace.ts';
import type { Timeline, TimelineEntry } from '../run-state/run-message.ts';

const categories = {
  compute: 'compute',
  communication: 'transfer',
  optimizer: 'compute',
} as const satisfies Record<string, TimelineEntry['category']>;

/**
 * Simulates the best layout of a plan, and returns the timeline of one rank of each place in the pipeline, in the
 * Chrome Trace Event format, which Perfetto reads. Without a layout that fits, it is empty.
 */
export function planTrace({ model, workload, cluster, ranked }: TrainingPlan): string {
  const [best] = ranked;
  if (best === undefined) return chromeTrace([]);
  const run = runOfLayout(model, best.layout, workload, cluster);
  const ranks = run.places.map((_, place) => firstRankOf(run, place));
  const { timelines, stepSeconds } = simulateRun(run, { timelines: ranks });
  return chromeTrace(
    [...timelines].map(([rank, spans]): Timeline => ({
      kind: 'timeline',
      rank,
      step: 1,
      startMs: 0,
      endMs: stepSeconds * 1000,
      events: spans.map(({ name, category, startSeconds, endSeconds }) => ({
        name,
        category: categories[category],
        startMs: startSeconds * 1000,
        durationMs: (endSeconds - startSeconds) * 1000,
      })),
    })),
  );
}
