import { mkdtemp } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createThreadsWorld } from '@shardwise/collectives';
import { spawnRanks } from '@shardwise/testing/node';
import { beforeAll, describe, expect, test } from 'vitest';
import { z } from 'zod';
import { type Conv1DTask, type Outcome, outcomes } from './ranks/lora-conv1d.ts';

const LIMIT_MS = 300_000;
const adapters = { LoRA: false, DoRA: true };

let ranks: readonly z.infer<typeof outcomes>[] = [];

beforeAll(async () => {
  const directory = await mkdtemp(join(tmpdir(), 'shardwise-lora-conv1d-'));
  const data: Conv1DTask = { directory, adapters };
  const world = createThreadsWorld({ size: 2 });
  const url = new URL('./ranks/lora-conv1d.ts', import.meta.url);
  const found = await spawnRanks(2, url, { world, data, timeoutMs: LIMIT_MS });
  ranks = z.array(outcomes).length(2).parse(found);
}, LIMIT_MS);

describe.each(Object.keys(adapters))('%s in the Conv1D layers of GPT-2', (adapter) => {
  /** Compares what a rank of two computes with what it computes alone. */
  function onBoth(compare: (found: Outcome, expected: Outcome) => void): void {
    for (const each of ranks) {
      const { alone, parallel } = each[adapter] ?? expect.fail();
      compare(parallel, alone);
    }
  }

  test('gives two ranks of tensor parallelism the logits and the loss of one', () => {
    onBoth((found, expected) => {
      expectClose(found.logits, expected.logits, 'logits');
      expectClose([found.loss], [expected.loss], 'loss');
    });
  });

  test('gives A, B and magnitudes the gradients of one rank', () => {
    onBoth((found, expected) => {
      const perLayer = adapter === 'DoRA' ? 3 : 2;
      expect(Object.keys(expected.gradients)).toHaveLength(2 * 4 * perLayer);
      for (const [name, values] of Object.entries(expected.gradients)) {
        expect(Math.max(...values.map(Math.abs)), name).toBeGreaterThan(1e-4);
      }
      expectSameTensors(found.gradients, expected.gradients);
    });
  });

  test("is saved as PEFT's files of one rank", () => {
    onBoth((found, expected) => {
      expect(found.config).toEqual(expected.config);
      expect(expected.config).toMatchObject({ fan_in_fan_out: true });
      expect(found.adapter).toEqual(expected.adapter);
    });
  });

  test('is merged into the file that one rank writes', () => {
    onBoth((found, expected) => {
      expectClose(found.mergedLogits, expected.logits, 'merged logits');
      expect(Object.keys(expected.merged)).toContain('transformer.h.1.attn.c_attn.weight');
      expect(Object.keys(expected.merged).filter((name) => name.includes('lora_'))).toEqual([]);
      expectSameTensors(found.merged, expected.merged);
    });
  });
});

function expectSameTensors(
  found: Readonly<Record<string, readonly number[]>>,
  expected: Readonly<Record<string, readonly number[]>>,
): void {
  expect(Object.keys(found)).toEqual(Object.keys(expected));
  for (const [name, values] of Object.entries(expected)) expectClose(found[name], values, name);
}

function expectClose(
  found: readonly number[] | undefined,
  expected: readonly number[],
  name: string,
): void {
  expect(found?.length, name).toBe(expected.length);
  for (const [i, value] of expected.entries()) {
    expect(Math.abs((found?.[i] ?? NaN) - value), `${name}[${i}]`).toBeLessThan(
      2e-5 * Math.max(1, Math.abs(value)),
    );
  }
}
