import { readFileSync } from 'node:fs';
import { ConfigError } from '@shardwise/core';
import { diloco } from '@shardwise/strategies';
import { describe, expect, it } from 'vitest';
import { z } from 'zod';
import { aggregate, type AggregationRule } from '../src/local-sgd/aggregation/aggregate.ts';
import { attacks, lossUnder } from './attacked-training.ts';

const vector = z.array(z.number());
const golden = z
  .object({
    elements: z.number(),
    aggregated: z.array(
      z.object({
        count: z.number(),
        faulty: z.number(),
        mean: vector,
        trimmedMean: vector,
        median: vector,
        krum: vector,
        multiKrum: vector,
        nearestNeighborMixing: vector,
      }),
    ),
    attacks: z.object({
      signFlipping: vector,
      innerProductManipulation: vector,
      aLittleIsEnough: vector,
    }),
  })
  .parse(JSON.parse(readFileSync(new URL('./golden/aggregation.json', import.meta.url), 'utf8')));

const robust = ['trimmedMean', 'median', 'krum', 'multiKrum', 'nearestNeighborMixing'] as const;
const rules = ['mean', ...robust] as const;

/** The vectors of tools/golden-aggregation.py. */
function vectors(count: number): readonly Float32Array[] {
  const { elements } = golden;
  return Array.from({ length: count }, (_, row) =>
    Float32Array.from({ length: elements }, (_, column) => {
      const place = row * elements + column;
      const value = Math.sin(1.7 * place) + (0.1 * place) / elements;
      return row === Math.floor(count / 2) ? value * 50 : value;
    }),
  );
}

function expectNear(found: Float32Array, expected: readonly number[]): void {
  expect(found).toHaveLength(expected.length);
  for (const [at, value] of found.entries()) {
    const size = Math.max(1, Math.abs(expected[at] ?? Number.NaN));
    expect(Math.abs(value - (expected[at] ?? Number.NaN)) / size).toBeLessThan(1e-6);
  }
}

describe('vectors of which some are faulty are aggregated as byzfl does', () => {
  it.each(rules)('%s', (rule) => {
    for (const { count, faulty, ...expected } of golden.aggregated) {
      expectNear(aggregate(vectors(count), { rule, faulty }), expected[rule]);
    }
  });
});

describe('a vector that is not finite', () => {
  it.each(robust)('is left out by %s', (rule) => {
    for (const wrong of [Number.NaN, Number.POSITIVE_INFINITY, Number.NEGATIVE_INFINITY]) {
      const given = [...vectors(4), new Float32Array(golden.elements).fill(wrong)];
      const found = aggregate(given, { rule, faulty: 1 });
      expect(found.every(Number.isFinite)).toBe(true);
    }
  });
});

describe('attacks are those of byzfl', () => {
  it.each(['signFlipping', 'innerProductManipulation', 'aLittleIsEnough'] as const)(
    '%s',
    (name) => {
      expectNear(attacks[name](vectors(4)), golden.attacks[name]);
    },
  );
});

describe('one attacker of five', () => {
  const names = [...Object.keys(attacks), 'labelFlipping'] as const;
  const known = new Map<string, number>();
  const lossOf = (rule: AggregationRule, attack: string | null): number => {
    const key = `${rule} ${attack}`;
    const loss = known.get(key) ?? lossUnder(attack, { rule, faulty: 1 });
    known.set(key, loss);
    return loss;
  };
  const excessOf = (rule: AggregationRule, attack: string): number =>
    lossOf(rule, attack) / lossOf(rule, null) - 1;

  it.each(names)('breaks a run that takes the mean: %s', (attack) => {
    expect(excessOf('mean', attack)).toBeGreaterThan(0.03);
  });

  it.each(names)('changes the final loss by at most 3 % with Krum: %s', (attack) => {
    expect(Math.abs(excessOf('krum', attack))).toBeLessThan(0.03);
  });

  it.each(['multiKrum', 'nearestNeighborMixing'] as const)(
    'leaves the final loss within 2 % of that of the mean without an attack with %s, and Krum does not',
    (rule) => {
      const calm = lossOf('mean', null);
      for (const attack of [null, ...names]) {
        expect(Math.abs(lossOf(rule, attack) / calm - 1)).toBeLessThan(0.02);
        expect(lossOf('krum', attack) / calm - 1).toBeGreaterThan(0.05);
      }
    },
  );

  it.each(['trimmedMean', 'median'] as const)(
    'hardly matters with %s if it knows the honest vectors, and does an eighth of the harm with wrong labels',
    (rule) => {
      for (const attack of Object.keys(attacks)) {
        expect(Math.abs(excessOf(rule, attack))).toBeLessThan(0.03);
      }
      const harm = excessOf('mean', 'labelFlipping');
      expect(excessOf(rule, 'labelFlipping')).toBeLessThan(harm / 8);
    },
  );
});

describe('an aggregation that does not fit is refused', () => {
  it.each([
    [{ trimmedMean: 0 }],
    [{ krum: 1.5 }],
    [{ krum: 1, trimmedMean: 1 }],
    [{ multiKrum: 0 }],
    [{ nearestNeighborMixing: -1 }],
    ['best'],
  ] as const)('%j', (given) => {
    expect(() => diloco({ every: 2, aggregate: given as never })).toThrow(ConfigError);
  });
});
