import { manualSeed, randomState, type Strategy } from '@shardwise/core';
import { elementCount } from '@shardwise/core/extend';
import {
  colwiseParallel,
  compose,
  constructSharded,
  ddp,
  fsdp,
  parallelize,
  planFor,
  tensorParallel,
  zero,
} from '@shardwise/strategies';
import { onRanks } from '@shardwise/testing/node';
import { describe, expect, it } from 'vitest';
import { hashOf } from '../../../test/support/model-values.ts';
import { TiedGpt, tiedStyles } from './ranks/tensor-parallel-models.ts';

const [dp, tp] = [2, 2];

/** The bytes of a rank's parts by the plan, including padding. */
function plannedBytes(model: TiedGpt, strategy: Strategy): number {
  return planFor(model, strategy).parameters.reduce((sum, { shape, parameter }) => {
    const own = shape.map((size, dim) => (parameter.dims[dim]?.includes('tp') ? size / tp : size));
    const [rows = 1, ...rest] = own;
    const isFlat = (parameter.flat ?? []).length > 0;
    const elements = isFlat
      ? Math.ceil(elementCount(own) / dp)
      : Math.ceil(rows / dp) * elementCount(rest);
    return sum + 4 * elements;
  }, 0);
}

describe('a model that is constructed in parts, for tensor parallelism too', () => {
  /** Runs `body` as each rank, whose random generators have the same seed. */
  const onMesh = async (body: () => Promise<void>): Promise<void> => {
    const axes = [
      { name: 'dp', size: dp },
      { name: 'tp', size: tp },
    ];
    await onRanks(
      dp * tp,
      () => {
        manualSeed(7);
        return body();
      },
      { axes },
    );
  };

  it.each([
    ['fsdp', fsdp()],
    ['zero-3', zero({ stage: 3 })],
  ])(
    'has the values of one that was built whole, and keeps no more than the part of a rank: %s',
    async (_, strategy) => {
      const composed = compose(tensorParallel(tiedStyles), strategy);
      await onMesh(async () => {
        const whole = new TiedGpt();
        const random = JSON.stringify(randomState());
        manualSeed(7);
        const model = constructSharded(() => new TiedGpt(), composed);
        expect(JSON.stringify(randomState())).toBe(random);
        const keptBytes = model
          .parameters()
          .reduce((sum, { initialPart }) => sum + (initialPart?.bytes.byteLength ?? NaN), 0);
        expect(keptBytes).toBeGreaterThan(0);
        expect(keptBytes).toBe(plannedBytes(model, composed));
        await parallelize(model, composed);
        expect(await hashOf(model)).toBe(await hashOf(whole));
      });
    },
  );

  it.each<[string, constructed: Strategy, strategy: Strategy, says: RegExp]>([
    [
      'without tensorParallel',
      fsdp(),
      fsdp(),
      /ConfigError: a parameter .* as shard\(0: tp·dp\), by tensor-parallel × fsdp: it was constructed in parts, and this rank kept its part of shard\(0: dp\)\. Give constructSharded the strategy/,
    ],
    [
      'other styles',
      compose(tensorParallel({ 'blocks.*.up': colwiseParallel() }), fsdp()),
      fsdp(),
      /: it was constructed in parts, and this rank kept its part of/,
    ],
    [
      'whole parameters',
      fsdp(),
      zero({ stage: 1 }),
      /as shard\(0: tp\), by tensor-parallel × zero-1: it was constructed in parts/,
    ],
    [
      'whole parameters, ddp',
      fsdp(),
      ddp(),
      /as shard\(0: tp\), by tensor-parallel × ddp: it was constructed/,
    ],
  ])('is refused by a strategy that cuts otherwise: %s', async (_, constructed, strategy, says) => {
    await onMesh(async () => {
      const model = constructSharded(() => new TiedGpt(), constructed);
      const refused = parallelize(model, compose(tensorParallel(tiedStyles), strategy));
      expect(await refused.then(() => 'no error', String)).toMatch(says);
    });
  });
});
