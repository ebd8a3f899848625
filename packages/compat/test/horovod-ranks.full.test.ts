import { onRanks } from '@shardwise/testing/node';
import { beforeAll, describe, expect, it } from 'vitest';
import { onCpu } from '../../../test/support/on-cpu.ts';
import { trainOnRank } from './horovod-ranks.ts';

let ranks: readonly Awaited<ReturnType<typeof trainOnRank>>[];

beforeAll(async () => {
  ranks = await onRanks(2, ({ rank }) => trainOnRank(rank), onCpu);
}, 120_000);

describe('Horovod’s DistributedOptimizer', () => {
  it.each(['horovod', 'inSmallMessages', 'summed'] as const)(
    'trains (%s) with the bits of the library’s own words',
    (name) => {
      for (const rank of ranks) expect(rank[name]).toEqual(rank.words);
    },
  );

  it('clips gradients that the ranks have in common after synchronize()', () => {
    for (const { clipped, clippedWords, words } of ranks) {
      expect(clipped).toEqual(clippedWords);
      expect(clipped).not.toEqual(words);
    }
  });

  it('sends gradients in 16 bits if it is told so', () => {
    for (const { inHalf, words } of ranks) {
      expect(inHalf.parameters).not.toEqual(words.parameters);
      for (const [index, value] of words.parameters.entries()) {
        expect(inHalf.parameters[index]).toBeCloseTo(value, 2);
      }
    }
    expect(ranks[0]?.inHalf.parameters).toEqual(ranks[1]?.inHalf.parameters);
  });

  it('sends as many gradients together as the threshold allows', () => {
    for (const { messages, messagesOfParts } of ranks) {
      expect([messages, messagesOfParts]).toEqual([1, 4]);
    }
  });
});

it('broadcastOptimizerState gives all ranks the settings and states of rank 0', () => {
  const [first, second] = ranks;
  expect(first?.momenta).toHaveLength(12);
  expect(first?.momenta.every((value) => value !== 0)).toBe(true);
  expect(second?.momenta).toEqual(first?.momenta);
  expect([first?.rates, second?.rates]).toEqual([[0.3], [0.3]]);
});
