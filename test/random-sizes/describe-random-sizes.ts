import type { Backend } from '@shardwise/core/spec';
import { setRank } from '@shardwise/core';
import { describeDifference } from '@shardwise/testing';
import { beforeAll, describe, expect, it } from 'vitest';
import { computations } from './computations.ts';
import { Draw } from './draw.ts';

/** Relative to the largest element, since sums cancel. */
const RELATIVE = 1e-4;
const ABSOLUTE = 2e-5;
/** A driver of WebGPU that computes on the CPU compiles the kernels of a computation in up to seconds. */
const timeout = 600_000;

type Make = () => Backend | Promise<Backend>;

interface Result {
  readonly shape: readonly number[];
  readonly dtype: string;
  readonly values: readonly number[];
}

/**
 * Tests that two backends have the same results and gradients for computations of random sizes, with the seeds from
 * SEED on. SEEDS is the number of seeds.
 */
export function describeRandomSizes(
  [name, make]: readonly [string, Make],
  [other, makeOther]: readonly [string, Make],
  seeds: number,
): void {
  const first = Number(process.env['SEED'] ?? 0);
  const count = Number(process.env['SEEDS'] ?? seeds);
  describe(`at random sizes, ${name} has the results of ${other}`, { timeout }, () => {
    let device: Backend;
    let reference: Backend;
    beforeAll(async () => {
      [device, reference] = [await make(), await makeOther()];
    });

    it.each(Object.keys(computations) as (keyof typeof computations)[])('in %s', async (kind) => {
      const numbers = Array.from({ length: count }, (_, i) => first + i);
      setRank({ device: reference });
      const expected: (readonly (Result | null)[])[] = [];
      for (const seed of numbers) expected.push(await resultsOf(kind, seed));
      setRank({ device });
      const found: string[] = [];
      for (const [i, seed] of numbers.entries()) {
        const faults = differences(await resultsOf(kind, seed), expected[i] ?? []);
        found.push(...faults.map((fault) => `seed ${seed}, ${fault}`));
      }
      expect(found).toEqual([]);
    });
  });
}

async function resultsOf(
  kind: keyof typeof computations,
  seed: number,
): Promise<readonly (Result | null)[]> {
  const results: (Result | null)[] = [];
  for (const y of computations[kind](new Draw(seed))) {
    results.push(
      y === null
        ? null
        : { shape: y.shape, dtype: y.dtype, values: Array.from(await y.data(), Number) },
    );
  }
  return results;
}

function differences(
  actual: readonly (Result | null)[],
  expected: readonly (Result | null)[],
): string[] {
  return expected.flatMap((wanted, i) => {
    const found = actual[i] ?? null;
    if (wanted === null || found === null)
      return wanted === found ? [] : [`result ${i} is missing`];
    const largest = wanted.values.reduce((most, value) => Math.max(most, Math.abs(value)), 0);
    const tolerance =
      wanted.dtype === 'f32'
        ? { rtol: 0, atol: ABSOLUTE + RELATIVE * largest }
        : { rtol: 0, atol: 0 };
    const difference = describeDifference(found, wanted, tolerance);
    return difference === undefined ? [] : [`result ${i}: ${difference}`];
  });
}
