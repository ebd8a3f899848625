import { createThreadsWorld } from '@shardwise/collectives';
import { beforeAll, describe, expect, it } from 'vitest';
import { z } from 'zod';
import { runRanks } from '../../../test/support/run-ranks.ts';
import { type Evaluation, evaluations, strategies } from './ranks/evaluation.ts';
import { testMs, trainingMs } from './time-limits.ts';

const size = 3;
let ranks: readonly z.infer<typeof evaluations>[] = [];

beforeAll(async () => {
  const found = await runRanks(size, new URL('./ranks/evaluation.ts', import.meta.url), {
    world: createThreadsWorld({ size, arenaBytes: 32 * 1024 * 1024 }),
    timeoutMs: trainingMs,
  });
  ranks = z.array(evaluations).length(size).parse(found);
}, testMs);

describe.each(Object.keys(strategies))('batch normalisation under %s', (name) => {
  const each = (): readonly Evaluation[] => ranks.flatMap((rank) => rank[name] ?? []);

  it("begins with rank 0's statistics on all ranks", () => {
    expect(each().map(({ initial }) => initial)).toEqual(
      Array.from({ length: size }, () => [1, 1, 1, 1]),
    );
  });

  it('evaluates with the same statistics on all ranks, after each epoch and in each pass', () => {
    // With DataParallel, rank 0 has all outputs and the other ranks have zeros.
    const outputs = each().map((one) => one.outputs);
    expect(outputs).toHaveLength(size);
    const [root = [], ...others] = outputs;
    for (const [first, second] of root) expect(second).toEqual(first);
    expect(new Set(root.map((passes) => JSON.stringify(passes))).size).toBe(2);
    if (name !== 'DataParallel') for (const other of others) expect(other).toEqual(root);
  });

  it('trains with statistics of its own batches in between', () => {
    const own = each().map((one) => JSON.stringify(one.own));
    expect(new Set(own).size).toBe(size);
  });
});

it.each(['DDP', 'ZeRO-1', 'ZeRO-2'])(
  '%s communicates once in an evaluation, of which ranks may have different numbers of batches',
  (name) => {
    const later = ranks.flatMap((rank) => rank[name]?.collectives ?? []);
    expect(later).toEqual(Array.from({ length: 2 * size }, () => 0));
  },
);
