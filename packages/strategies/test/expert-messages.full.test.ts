import { cpu } from '@shardwise/backend-cpu';
import { createThreadsWorld } from '@shardwise/collectives';
import { manualSeed, nn, setRank } from '@shardwise/core';
import { beforeAll, describe, expect, it } from 'vitest';
import { z } from 'zod';
import { runRanks } from '../../../test/support/run-ranks.ts';
import { found, tokens, traffic } from './ranks/expert-messages.ts';
import { batch, features } from './ranks/expert-models.ts';

describe('expertParallel on two ranks', () => {
  let ranks: readonly z.infer<typeof found>[] = [];

  beforeAll(async () => {
    const results = await runRanks(2, new URL('./ranks/expert-messages.ts', import.meta.url), {
      world: createThreadsWorld({ size: 2, arenaBytes: 16 * 1024 * 1024 }),
    });
    ranks = z.array(found).length(2).parse(results);
  });

  it('expertParallel on two ranks sends what the plan says: two all-to-alls of rows in forward and in backward, one of counts', () => {
    for (const { planned, sent } of ranks) expect(sent).toEqual(planned);
    const rowBytes = tokens * 2 * features * 4;
    const ofRows = ranks[0]?.sent.filter((each) => each === `allToAll ${rowBytes}`);
    // The model has two layers.
    expect(ofRows).toHaveLength(8);
    expect(ranks[0]?.sent.filter((each) => each.startsWith('allToAll'))).toHaveLength(10);
  });

  it('explains which messages travel, and what each rank keeps', () => {
    const text = ranks[0]?.explained ?? '';
    expect(text).toMatch(/experts\.up +f32 +\[8, 8, 12\] +shard\(0: ep\) +shard\(0: ep\) +1536/);
    expect(text).toMatch(/router\.weight +f32 +\[8, 8\] +replicate +replicate +256/);
    expect(text).toMatch(/experts +1 +tokens to experts +ep +allToAll +allToAll +512/);
  });

  it('expertParallel on two ranks sends what the plan says where ranks have the same tokens, too', () => {
    for (const { folded } of ranks) expect(folded.sent).toEqual(folded.planned);
    const sent = ranks[0]?.folded.sent ?? [];
    // Both ranks have the same 16 tokens, and each routes 8 of them.
    expect(sent.filter((each) => each === `allToAll ${tokens * 2 * features * 4}`)).toHaveLength(8);
    // The gathers are of the outputs of two layers, and of the gradients of their inputs.
    const gathered = `allGather ${2 * tokens * features * 4}`;
    expect(sent.filter((each) => each === gathered)).toHaveLength(4);
    const text = ranks[0]?.folded.explained ?? '';
    expect(text).toMatch(/experts\.up +f32 +\[8, 8, 12\] +shard\(0: tp\)/);
  });

  it('expertParallel on two ranks sends what the plan says over two axes, one after the other', async () => {
    const script = new URL('./ranks/expert-grid-messages.ts', import.meta.url);
    const results = await runRanks(4, script, {
      world: createThreadsWorld({ size: 4, arenaBytes: 16 * 1024 * 1024 }),
    });
    for (const { planned, sent } of z.array(traffic).length(4).parse(results)) {
      expect(sent).toEqual(planned);
      // There are two layers and two axes, with two messages each in forward and in backward.
      const rows = sent.filter((each) => each === `allToAll ${tokens * 2 * features * 4}`);
      expect(rows).toHaveLength(16);
    }
  });

  it('expertParallel on two ranks has gradients of all tokens’ experts where ranks have no tokens', async () => {
    setRank({ device: await cpu() });
    manualSeed(0);
    const layer = new nn.MixtureOfExperts(features, 4, 4, { gate: nn.switchGate() });
    layer
      .forward(batch(0, 0, 2))
      .square()
      .sum()
      .backward();
    const alone = Array.from((await layer.experts.up.grad?.data()) ?? [], Number);
    // The gradient is the mean over two ranks.
    for (const { uneven } of ranks) {
      expect(uneven).toHaveLength(alone.length);
      uneven.forEach((x, index) => expect(x).toBeCloseTo((alone[index] ?? NaN) / 2, 6));
    }
  });
});
