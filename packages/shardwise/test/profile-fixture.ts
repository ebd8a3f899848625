import type { ProfileRow, RankProfile } from '../src/run-state/rank-profile.ts';

function row(op: string, phase: ProfileRow['phase'], ms: number, flops: number): ProfileRow {
  const amounts = { peakMs: 0, memoryMs: 0, roofMs: 0 };
  return { module: 'GPT', op, phase, count: 2, ms, flops, bytes: 1e6, ...amounts };
}

/** The profile of a rank with an operation in each phase. */
export function profileOf(more: Partial<RankProfile> = {}): RankProfile {
  return {
    kind: 'profile',
    rank: 0,
    cycle: 0,
    from: 3,
    to: 4,
    steps: 2,
    stepMs: 200,
    computeMs: 70,
    productsMs: 40,
    betweenMs: 0,
    waitMs: 0,
    dataMs: 0,
    graphMs: 0,
    compileMs: 0,
    hostMs: 0,
    parts: 4,
    tinyParts: 0,
    tinyMs: 0,
    roofline: {},
    rows: [
      row('matmul', 'forward', 15, 1e9),
      row('matmul', 'backward', 25, 2e9),
      row('gelu', 'recomputation', 10, 0),
      row('add', 'optimizer', 20, 0),
    ],
    waits: [],
    ...more,
  };
}
