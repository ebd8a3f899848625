import { createHash } from 'node:crypto';
import { manualSeed, type nn, randomState, type Strategy } from '@shardwise/core';
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
import { beforeAll, describe, expect, it } from 'vitest';
import { TiedGpt, tiedStyles } from './ranks/tensor-parallel-models.ts';

const dp = 2;
const tp = 2;

interface Built {
  /** The bytes of parameters on this rank before a strategy is applied. */
  keptBytes: number;
  /** The bytes of the parts by the plan, including padding. */
  plannedBytes: number;
  /** The SHA-256 of all whole parameters. */
  hash: string;
  /** The state of the random generators after the model was built. */
  random: string;
}

interface Outcome {
  whole: Pick<Built, 'hash' | 'random'>;
  fsdp: Built;
  'zero-3': Built;
  /** The messages of the errors that refuse a model or strategy. */
  refusals: Record<string, string>;
}

async function outcomeOf(): Promise<Outcome> {
  manualSeed(7);
  const model = new TiedGpt();
  const random = JSON.stringify(randomState());
  return {
    whole: { hash: await hashOf(model), random },
    fsdp: await build(compose(tensorParallel(tiedStyles), fsdp())),
    'zero-3': await build(compose(tensorParallel(tiedStyles), zero({ stage: 3 }))),
    refusals: {
      'without tensorParallel': await refusal(fsdp(), fsdp()),
      'other styles': await refusal(
        compose(tensorParallel({ 'blocks.*.up': colwiseParallel() }), fsdp()),
        fsdp(),
      ),
      'whole parameters': await refusal(fsdp(), zero({ stage: 1 })),
      'whole parameters, ddp': await refusal(fsdp(), ddp()),
    },
  };
}

async function build(composed: Strategy): Promise<Outcome['fsdp']> {
  manualSeed(7);
  const model = constructSharded(() => new TiedGpt(), composed);
  const random = JSON.stringify(randomState());
  const keptBytes = model
    .parameters()
    .reduce((sum, { initialPart }) => sum + (initialPart?.bytes.byteLength ?? NaN), 0);
  const plannedBytes = planFor(model, composed).parameters.reduce((sum, { shape, parameter }) => {
    const own = shape.map((size, dim) => (parameter.dims[dim]?.includes('tp') ? size / tp : size));
    const [rows = 1, ...rest] = own;
    const isFlat = (parameter.flat ?? []).length > 0;
    const elements = isFlat
      ? Math.ceil(elementCount(own) / dp)
      : Math.ceil(rows / dp) * elementCount(rest);
    return sum + 4 * elements;
  }, 0);
  await parallelize(model, composed);
  return { keptBytes, plannedBytes, hash: await hashOf(model), random };
}

async function refusal(constructed: Strategy, strategy: Strategy): Promise<string> {
  manualSeed(7);
  const model = constructSharded(() => new TiedGpt(), constructed);
  const refused = parallelize(model, compose(tensorParallel(tiedStyles), strategy));
  return refused.then(
    () => '',
    (error: unknown) => String(error),
  );
}

async function hashOf(model: nn.Module): Promise<string> {
  const hash = createHash('sha256');
  for (const { bytes } of Object.values(await model.stateDict())) hash.update(bytes);
  return hash.digest('hex');
}

describe('a model that is constructed in parts, for tensor parallelism too', () => {
  let ranks: readonly Outcome[] = [];

  beforeAll(async () => {
    ranks = await onRanks(dp * tp, outcomeOf, {
      axes: [
        { name: 'dp', size: dp },
        { name: 'tp', size: tp },
      ],
    });
  });

  it.each(['fsdp', 'zero-3'] as const)('has the values of one that was built whole: %s', (name) => {
    for (const { whole, [name]: parts } of ranks) {
      expect(parts.hash).toBe(whole.hash);
      expect(parts.random).toBe(whole.random);
    }
  });

  it.each(['fsdp', 'zero-3'] as const)('keeps no more than the part of a rank: %s', (name) => {
    for (const { [name]: parts } of ranks) {
      expect(parts.keptBytes).toBeGreaterThan(0);
      expect(parts.keptBytes).toBe(parts.plannedBytes);
    }
  });

  it.each([
    [
      'without tensorParallel',
      /ConfigError: a parameter .* as shard\(0: tp·dp\), by tensor-parallel × fsdp: it was constructed in parts, and this rank kept its part of shard\(0: dp\)\. Give constructSharded the strategy/,
    ],
    ['other styles', /: it was constructed in parts, and this rank kept its part of/],
    [
      'whole parameters',
      /as shard\(0: tp\), by tensor-parallel × zero-1: it was constructed in parts/,
    ],
    ['whole parameters, ddp', /as shard\(0: tp\), by tensor-parallel × ddp: it was constructed/],
  ])('is refused by a strategy that cuts otherwise: %s', (name, message) => {
    for (const { refusals } of ranks) expect(refusals[name]).toMatch(message);
  });
});
