import { abortThreadsWorld, createThreadsWorld } from '@shardwise/collectives';
import { type RankFailure, type RankOutcome } from '@shardwise/testing';
import { settleRanks, spawnRanks } from '@shardwise/testing/node';
import { beforeAll, describe, expect, it } from 'vitest';
import { z } from 'zod';
import { observations, type Observations } from './ranks/behaviour.ts';

const moduleUrl = new URL('./ranks/behaviour.ts', import.meta.url);
const arenaBytes = 16 * 1024 * 1024;
const size = 3;

describe(`DistributedDataParallel on ${size} ranks`, () => {
  let ranks: readonly Observations[] = [];

  beforeAll(async () => {
    const world = createThreadsWorld({ size, arenaBytes });
    ranks = z
      .array(observations)
      .length(size)
      .parse(await spawnRanks(size, moduleUrl, { world }));
  });

  it("gives every rank rank 0's parameters and buffers, whatever it began with", () => {
    const [root, ...others] = ranks.map(({ initial }) => initial);
    expect(root?.['mean']).toEqual([1, -1]);
    expect(root?.['linear.weight']).toHaveLength(6);
    for (const initial of others) expect(initial).toEqual(root);
  });

  describe('buffers', () => {
    // Rank r has set its running mean to [10 + r, r]. A training pass adds ones.
    const own = (rank: number): number[] => [10 + rank, rank];
    const root = own(0);
    const plusOnes = (values: readonly number[]): number[] => values.map((value) => value + 1);

    it("buffers are rank 0's in every forward pass of training", () => {
      for (const { buffers } of ranks)
        expect(buffers['training']).toEqual({ used: root, left: plusOnes(root) });
    });

    it("buffers are rank 0's in each of two forward passes before a backward pass", () => {
      for (const { buffers } of ranks)
        expect(buffers['twice']).toEqual({ used: plusOnes(root), left: plusOnes(plusOnes(root)) });
    });

    it.each(['noSync', 'broadcastBuffers: false'])("stay the rank's own with %s", (name) => {
      ranks.forEach(({ buffers }, rank) =>
        expect(buffers[name]).toEqual({ used: own(rank), left: plusOnes(own(rank)) }),
      );
    });

    it.each(['evaluation', 'evaluation inside noSync'])("are rank 0's in %s", (name) => {
      for (const { buffers } of ranks) expect(buffers[name]).toEqual({ used: root, left: root });
    });

    it("buffers stay the rank's own in evaluation with broadcastBuffers: false", () => {
      ranks.forEach(({ buffers }, rank) =>
        expect(buffers['evaluation with broadcastBuffers: false']).toEqual({
          used: own(rank),
          left: own(rank),
        }),
      );
    });

    it('travel before each pass that trains, and once before the evaluations after it, of which ranks may have different numbers', () => {
      for (const { evaluations } of ranks) {
        // There are two messages, one for each dtype.
        const epoch = { training: [2, 2], evaluation: [2, 0] };
        expect(evaluations).toEqual([epoch, epoch]);
      }
    });
  });

  it('communicates in a step what its plan says, and nothing inside noSync', () => {
    for (const { traffic } of ranks) {
      expect(traffic.planned.collectives).toBe(3);
      expect(traffic.counted).toEqual(traffic.planned);
      expect(traffic.inNoSync).toBe(0);
    }
  });

  it('starts the first all-reduce before the last part of backward is computed', () => {
    for (const { timeline } of ranks) {
      expect(timeline.filter((category) => category === 'collective')).toHaveLength(3);
      expect(timeline.indexOf('collective')).toBeLessThan(timeline.lastIndexOf('compute'));
    }
  });

  it('makes no plan and compiles nothing once it has seen a first and a second step', () => {
    for (const { made } of ranks) {
      expect(made).toHaveLength(6);
      expect(new Set(made.slice(1).map((counts) => JSON.stringify(counts))).size).toBe(1);
    }
  });

  it('makes all plans of a model in parts in the first step, in which ranks tell each other what they reduce', () => {
    for (const { madeInParts } of ranks) {
      expect(madeInParts).toHaveLength(6);
      expect(new Set(madeInParts.map((counts) => JSON.stringify(counts))).size).toBe(1);
    }
  });

  describe('refuses models that differ, on every rank, naming rank and tensor', () => {
    it.each([
      [
        'another shape',
        0,
        /rank 2 differs from rank 0 at tensor 0: rank 0 has weight f32 \[4, 3\]/,
        /it has weight f32 \[5, 3\]/,
      ],
      ['another class', 0, /rank 0 has weight f32 \[4, 3\]/, /it has first.weight f32 \[32, 16\]/],
      ['fewer parameters', 1, /rank 0 has bias f32 \[4\]/, /it has no such tensor/],
      [
        'other parameters frozen',
        0,
        /rank 0 has weight f32 \[3, 3\]/,
        /it has weight f32 \[3, 3\] frozen/,
      ],
    ] as const)('%s', (name, tensor, everywhere, onThatRank) => {
      for (const { mismatches } of ranks) {
        expect(mismatches[name]).toMatchObject({
          name: 'CollectiveMismatchError',
          code: 'COLLECTIVE_MISMATCH',
          fields: { rank: 2, tensor },
        });
        expect(mismatches[name]?.message).toMatch(everywhere);
        expect(mismatches[name]?.message).toContain(
          'Build the same model, with the same strategy and options, on every rank',
        );
      }
      expect(ranks[2]?.mismatches[name]?.message).toMatch(onThatRank);
    });

    it.each([
      ['another bucket size', /rank 0 has the step reduce .*1024/, /it has the step reduce .*2048/],
      ['another stage', /rank 0 has the strategy/, /it has the strategy/],
      ['another limit of units', /rank 0 has the step/, /it has the step/],
      ['another precision', /autocast bf16/, /autocast f16/],
    ] as const)('and options that differ: %s', (name, everywhere, onThatRank) => {
      for (const { mismatches } of ranks) {
        expect(mismatches[name]).toMatchObject({
          name: 'CollectiveMismatchError',
          fields: { rank: 2 },
        });
        expect(mismatches[name]?.message).toMatch(everywhere);
      }
      expect(ranks[2]?.mismatches[name]?.message).toMatch(onThatRank);
    });
  });
});

describe('a parameter without gradient', () => {
  const unused = [
    'third.bias',
    'third.weight',
    'second.bias',
    'second.weight',
    'norm.bias',
    'norm.weight',
  ];

  it('of any loss of a step is an error of the update that names it, on every rank that leaves it out', async () => {
    const failures = failuresOf(
      await settleRanks(2, moduleUrl, {
        name: 'leaveOut',
        data: 'all',
        world: createThreadsWorld({ size: 2, arenaBytes }),
      }),
    );
    expect(failures).toHaveLength(2);
    for (const { report } of failures) {
      expect(report).toMatchObject({
        name: 'TensorStateError',
        code: 'TENSOR_STATE',
        fields: { missing: unused },
      });
      expect(report.message).toContain(
        `6 of 8 parameters got no gradient from any backward pass of this step: ${unused.join(', ')}. Use every parameter in a loss`,
      );
      expect(report.message).toContain('findUnusedParameters: true');
    }
  });

  it('of one rank ends the others when that rank is gone', async () => {
    const world = createThreadsWorld({ size: 2, arenaBytes });
    const onFailure = (rank: number, reason: RankFailure): void =>
      abortThreadsWorld(world, { rank, reason });
    const [other, culprit] = failuresOf(
      await settleRanks(2, moduleUrl, { name: 'leaveOut', data: 1, world, onFailure }),
    );
    expect(culprit?.report).toMatchObject({ code: 'TENSOR_STATE', fields: { missing: unused } });
    expect(other?.report).toMatchObject({ code: 'COLLECTIVE_ABORTED', fields: { abortedBy: 1 } });
    expect(other?.report.message).toContain('third.weight');
  });
});

function failuresOf(outcomes: readonly RankOutcome[]): readonly RankFailure[] {
  return outcomes.flatMap((outcome) => (outcome.status === 'rejected' ? [outcome.error] : []));
}
