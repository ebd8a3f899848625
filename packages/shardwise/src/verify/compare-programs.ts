import type { Finding } from './finding.ts';
import type { RankRecord } from './records.ts';
import { recordsOfParts } from './whole-batch.ts';

// Differences in what programs did, which show before any of their values differ.

/** What the ranks recorded, and what one rank did. */
export interface Programs {
  /** By rank. */
  readonly ranks: readonly RankRecord[];
  readonly one: RankRecord;
}

/** Ranks with different parts of the batch that read the same inputs in a step. Null: there are none. */
export function sharedBatch({ ranks, one }: Programs, step: number): Finding | null {
  const records = recordsOfParts(ranks);
  for (const [index, pass] of (records[0]?.passes ?? []).entries()) {
    if (pass.step !== step || pass.inputs.length === 0) continue;
    const seen = new Map<string, number>();
    for (const record of records) {
      const rank = ranks.indexOf(record);
      const inputs = record.passes[index]?.inputs.join() ?? '';
      const other = seen.get(inputs);
      seen.set(inputs, rank);
      if (other === undefined) continue;
      return {
        ...withoutValue(one, 'batch', step, 'inputs', rank),
        ranks: [other, rank],
        hint: `rank ${rank} reads the same rows as rank ${other}: divide the data by the rank, as a DistributedSampler does`,
      };
    }
  }
  return null;
}

/** A rank that made another number of backward passes before an update, or of updates. Null: there is none. */
export function otherUpdates({ ranks, one }: Programs, step: number): Finding | null {
  if (step === 0) return null;
  const expected = one.backwards[step - 1];
  const rank = ranks.findIndex(({ backwards }) => backwards[step - 1] !== expected);
  if (rank < 0 || expected === undefined) return null;
  const found = ranks[rank]?.backwards[step - 1];
  const hint =
    found === undefined
      ? `rank ${rank} did not make this update`
      : `rank ${rank} made ${found} backward passes before this update, and one rank ${expected}`;
  const about = withoutValue(one, 'updates', step, 'update', rank);
  return { ...about, found: found ?? 0, expected, hint };
}

/** A gradient of the step before that a rank has not cleared. Null: there is none. */
export function keptGradient({ ranks, one }: Programs, step: number): Finding | null {
  for (const [rank, record] of ranks.entries()) {
    const kept = record.keptGradients.find((each) => each.step === step);
    if (kept === undefined) continue;
    return {
      ...withoutValue(one, 'kept gradient', step, kept.name, rank),
      hint: 'the backward pass adds to the gradient of the step before: call optimizer.zeroGrad() in each step',
    };
  }
  return null;
}

function withoutValue(
  one: RankRecord,
  kind: Finding['kind'],
  step: number,
  tensor: string,
  rank: number,
): Omit<Finding, 'hint'> {
  const place = { module: '', moduleClass: one.classes[''] ?? '', tensor };
  const value = { index: [], found: Number.NaN, expected: Number.NaN, tolerance: 0 };
  return { kind, step, ...place, rank, ranks: [rank], ...value, layout: '', actions: [] };
}
