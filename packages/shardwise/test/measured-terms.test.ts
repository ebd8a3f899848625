import { expect, test } from 'vitest';
import { exposedTerms, measuredTerms } from '../src/plan/measured-terms.ts';
import type { Timeline, TimelineEntry } from '../src/run-state/run-message.ts';
import { head, reports, runOf } from './run-fixture.ts';
import { profileOf } from './profile-fixture.ts';

type Span = readonly [
  category: TimelineEntry['category'],
  name: string,
  from: number,
  to: number,
  axis?: string,
];

function timeline(spans: readonly Span[], rank = 0): Timeline {
  return {
    kind: 'timeline',
    rank,
    step: 2,
    startMs: head.startMs,
    endMs: head.startMs + 100,
    events: spans.map(([category, name, from, to, axis]) => ({
      name,
      category,
      startMs: head.startMs + from,
      durationMs: to - from,
      axis,
    })),
  };
}

test('of a message, the time counts in which the rank computes nothing', () => {
  const terms = exposedTerms(
    timeline([
      ['compute', '9 ops', 0, 40],
      ['collective', 'allReduce', 30, 60, 'dp'],
      ['compute', '1 ops', 50, 55],
    ]),
  );
  expect(terms).toEqual({ dataParallel: 0.015 });
});

test('while several messages are under way, the one that began first is waited for', () => {
  const terms = exposedTerms(
    timeline([
      ['collective', 'allReduce', 0, 20, 'tp'],
      ['collective', 'allReduce', 10, 50, 'dp'],
      ['transfer', 'pageOut', 45, 70],
    ]),
  );
  expect(terms).toEqual({ tensorParallel: 0.02, dataParallel: 0.03, offload: 0.02 });
});

test('exchanges of tokens are expert parallelism, and sums on the same axis data parallelism', () => {
  const terms = exposedTerms(
    timeline([
      ['collective', 'allToAllRows', 0, 10, 'ep'],
      ['collective', 'allReduce', 10, 30, 'ep'],
      ['collective', 'allReduce', 30, 90, 'an-axis-of-the-user'],
    ]),
  );
  expect(terms).toEqual({ expertParallel: 0.01, dataParallel: 0.02 });
});

test('between its actions, a stage waits for other stages unless it plans or reads data', () => {
  const terms = exposedTerms(
    timeline([
      ['data', 'next batch', 0, 5],
      ['stage', '1F0', 20, 40],
      ['compute', '9 ops', 21, 39],
      ['stage', '1B0', 60, 90],
      ['compute', '9 ops', 61, 89],
    ]),
  );
  expect(terms).toEqual({ pipelineParallel: 0.035 });
});

test('figures are means over the ranks, and profiles tell what was computed', () => {
  const waits = [0, 1].map((rank) =>
    timeline([['collective', 'allReduce', 0, 10 + 10 * rank, 'dp']], rank),
  );
  const profiles = [0, 1].map((rank) => profileOf({ rank, steps: 2, betweenMs: 4 }));
  const state = runOf([...reports(3), ...waits, ...profiles]);
  expect(measuredTerms(state, 100)).toEqual({
    dataParallel: 0.015,
    compute: 0.022,
    recompute: 0.005,
    optimizer: 0.01,
  });
  // Without the profiles of all ranks, they say nothing.
  expect(measuredTerms(runOf([...reports(3), ...waits, ...profiles.slice(1)]), 100)).toEqual({
    dataParallel: 0.015,
  });
});
