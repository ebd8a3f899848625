import { mkdtemp, readFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { manualSeed, noGrad, type Strategy } from '@shardwise/core';
import { decodeSafetensors } from '@shardwise/core/extend';
import { adapterFiles, addLora, GPT2LMHeadModel, mergeLora } from '@shardwise/models';
import { savePretrained } from '@shardwise/models/node';
import { parallelize, tensorParallel } from '@shardwise/strategies';
import { onRanks } from '@shardwise/testing/node';
import { beforeAll, describe, expect, test } from 'vitest';
import { onCpu } from '../../../test/support/on-cpu.ts';
import { fill, tokens } from './golden/formulas.ts';

const ROWS = 2;
const LENGTH = 12;

type TensorValues = Record<string, number[]>;

interface Outcome {
  logits: number[];
  loss: number;
  /** Gradients of the parameters that train, whole. */
  gradients: TensorValues;
  /** PEFT's two files. */
  config: unknown;
  adapter: TensorValues;
  mergedLogits: number[];
  /** The names and values of the file that savePretrained writes after mergeLora. */
  merged: TensorValues;
}

/** What one rank alone and two ranks together compute, by the kind of adapter. */
type Outcomes = Record<
  string,
  {
    alone: Outcome;
    parallel: Outcome;
  }
>;

async function compute(directory: string): Promise<Outcomes> {
  const found: Outcomes = {};
  for (const [name, useDora] of Object.entries(adapters)) {
    const folder = `${directory}/${name}`;
    found[name] = {
      alone: await run(useDora, null, `${folder}-alone`),
      parallel: await run(useDora, tensorParallel(), `${folder}-parallel`),
    };
  }
  return found;
}

async function run(useDora: boolean, strategy: Strategy | null, folder: string): Promise<Outcome> {
  manualSeed(3);
  const inner = new GPT2LMHeadModel({
    vocabSize: 48,
    nEmbd: 16,
    nHead: 4,
    nLayer: 2,
    nPositions: 16,
  });
  await fill(inner);
  addLora(inner, {
    rank: 3,
    alpha: 6,
    useDora,
    targetModules: ['c_attn', 'attn.c_proj', 'c_fc', 'mlp.c_proj'],
  });
  // B is no longer zero, so that A has gradients.
  await fill(inner);
  inner.eval();
  const model = strategy === null ? inner : await parallelize(inner, strategy);
  const ids = tokens('ids', [ROWS, LENGTH]);
  const logitsNow = async (): Promise<number[]> =>
    numbersOf(await noGrad(() => model.forward(ids)).data());
  const logits = await logitsNow();
  const loss = model.forward(ids, { labels: ids });
  loss.backward();
  const gradients: Record<string, number[]> = {};
  for (const [name, { grad }] of inner.namedParameters()) {
    if (grad !== null) gradients[name] = numbersOf(await grad.data());
  }
  const { config, tensors } = await adapterFiles(inner);
  await mergeLora(inner);
  const mergedLogits = await logitsNow();
  await savePretrained(model, folder);
  const file = await readFile(`${folder}/model.safetensors`);
  return {
    logits,
    loss: await loss.item(),
    gradients,
    config,
    adapter: valuesOf(tensors),
    mergedLogits,
    merged: valuesOf(file),
  };
}

function valuesOf(file: Uint8Array): Record<string, number[]> {
  const { tensors } = decodeSafetensors(file);
  return Object.fromEntries(
    Object.entries(tensors).map(([name, { bytes }]) => [
      name,
      [...new Float32Array(bytes.slice().buffer)],
    ]),
  );
}

const numbersOf = (values: ArrayLike<number | bigint>): number[] => Array.from(values, Number);

const adapters = { LoRA: false, DoRA: true };

let ranks: readonly Outcomes[] = [];

beforeAll(async () => {
  const directory = await mkdtemp(join(tmpdir(), 'shardwise-lora-conv1d-'));
  const options = { axes: [{ name: 'tp', size: 2 }], ...onCpu };
  ranks = await onRanks(2, () => compute(directory), options);
});

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
