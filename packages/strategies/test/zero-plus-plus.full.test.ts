import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createThreadsWorld } from '@shardwise/collectives';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { z } from 'zod';
import { runRanks } from '../../../test/support/run-ranks.ts';
import {
  isVariant,
  results,
  sizes,
  steps,
  type VariantName,
  variants,
} from './ranks/zero-plus-plus.ts';
import { testMs, trainingMs } from './time-limits.ts';

const size = 4;
let directory = '';
let ranks: readonly z.infer<typeof results>[] = [];

beforeAll(async () => {
  directory = await mkdtemp(join(tmpdir(), 'shardwise-zero-plus-plus-'));
  const world = createThreadsWorld({ size, arenaBytes: 32 * 1024 * 1024 });
  const url = new URL('./ranks/zero-plus-plus.ts', import.meta.url);
  const found = await runRanks(size, url, { world, data: { directory }, timeoutMs: trainingMs });
  ranks = z.array(results).length(size).parse(found);
}, testMs);

afterAll(() => rm(directory, { recursive: true, force: true }));

const ofRanks = (name: VariantName) => ranks.flatMap((rank) => rank[name] ?? []);
const names = Object.keys(variants).filter(isVariant);
const lossesOf = (name: VariantName): readonly number[] => ofRanks(name)[0]?.losses ?? [];

describe.each(names)('%s on four ranks', (name) => {
  it('ends with the same parameters on all ranks, bit for bit', () => {
    const [first, ...others] = ofRanks(name);
    expect(others).toHaveLength(size - 1);
    expect(Object.keys(first?.parameters ?? {})).toHaveLength(6);
    for (const { parameters } of others) expect(parameters).toEqual(first?.parameters);
  });

  it('sends in a step the bytes that its plan says', () => {
    for (const { sent, planned, counted } of ofRanks(name)) {
      expect(sent).toEqual(planned);
      expect(counted).toBe(Object.values(planned).reduce((sum, bytes) => sum + bytes, 0));
    }
  });

  it('goes on from a checkpoint as if it had not stopped, bit for bit', () => {
    const { losses = [], resumed } = ofRanks(name)[0] ?? {};
    expect(losses).toHaveLength(steps);
    expect(resumed).toEqual(losses.slice(steps / 2));
  });
});

describe('the losses', () => {
  const far = (name: VariantName, of: VariantName): number => {
    const exact = lossesOf(of);
    expect(exact).toHaveLength(steps);
    return Math.max(
      ...lossesOf(name).map(
        (loss, step) => Math.abs(loss - (exact[step] ?? NaN)) / (exact[0] ?? NaN),
      ),
    );
  };

  it('are those of exact messages with a second copy alone, bit for bit', () => {
    expect(lossesOf('ZeRO-3, copy')).toEqual(lossesOf('ZeRO-3'));
  });

  it.each<[name: VariantName, exact: VariantName, bound: number]>([
    ['ZeRO-3, weights', 'ZeRO-3', 0.01],
    ['FSDP, weights', 'FSDP', 0.01],
    ['ZeRO-3, gradients of 8 bits', 'ZeRO-3', 0.02],
    ['ZeRO-3, gradients', 'ZeRO-3', 0.1],
    ['FSDP, gradients', 'FSDP', 0.1],
    ['FSDP, gradients by hosts', 'FSDP', 0.1],
    ['ZeRO-3, all', 'ZeRO-3', 0.1],
    ['FSDP, all', 'FSDP', 0.1],
    ['FSDP, all, bf16', 'FSDP', 0.1],
    ['FSDP, all, replicas', 'FSDP', 0.1],
  ])('of %s are as close to those of %s as %d of the first loss', (name, exact, bound) => {
    const distance = far(name, exact);
    expect(distance).toBeGreaterThan(0);
    expect(distance).toBeLessThan(bound);
  });

  it.each<VariantName>(['FSDP, all, unused parameters', 'FSDP, all, pages'])(
    'of %s are those of FSDP, all, bit for bit',
    (name) => {
      expect(lossesOf(name)).toEqual(lossesOf('FSDP, all'));
    },
  );
});

describe('the bytes of a step', () => {
  /** The elements of the parts of weights of a rank. `rows`: cut along rows, as fsdp does. */
  const weights = (rows: boolean): number[] =>
    sizes.slice(1).map((outputs, index) => {
      const inputs = sizes[index] ?? 0;
      return rows ? Math.ceil(outputs / size) * inputs : Math.ceil((outputs * inputs) / size);
    });
  const biases = sizes.slice(1).map((outputs) => Math.ceil(outputs / size));
  const sum = (values: readonly number[]): number => values.reduce((all, each) => all + each, 0);
  const scales = (elements: number): number => 4 * Math.ceil(elements / 256);
  const in8 = (elements: number): number => elements + scales(elements);
  const in4 = (elements: number): number => Math.ceil(elements / 2) + scales(elements);
  const f32 = (elements: number): number => 4 * elements;

  it.each<[name: VariantName, rows: boolean, gather: (n: number) => number]>([
    ['ZeRO-3', false, f32],
    ['FSDP', true, f32],
    ['ZeRO-3, weights', false, in8],
    ['FSDP, weights', true, in8],
    ['ZeRO-3, all', false, in8],
    ['FSDP, all', true, in8],
    ['FSDP, all, bf16', true, in8],
  ])('of gathers of %s are those of the closed form', (name, rows, gather) => {
    // The backward pass reads no bias.
    const parts = [...weights(rows), ...weights(rows), ...biases];
    const expected = size * sum(parts.map(gather));
    for (const { sent } of ofRanks(name)) expect(sent['allGather']).toBe(expected);
  });

  it('of gathers of frozen weights alone are 8 bits', () => {
    const [first = 0, ...others] = weights(false);
    const [bias = 0, ...otherBiases] = biases;
    const trained = [...others, ...others, ...otherBiases];
    const expected = size * (2 * in8(first) + in8(bias) + sum(trained.map(f32)));
    for (const { sent } of ofRanks('ZeRO-3, frozen weights')) {
      expect(sent['allGather']).toBe(expected);
    }
  });

  it('of gradients are those of the closed form: once over all ranks', () => {
    const expected = size * sum([...weights(false), ...biases].map(in4));
    for (const { sent } of ofRanks('ZeRO-3, gradients')) {
      expect(sent['allToAll']).toBe(expected);
      expect(sent['reduceScatter']).toBeUndefined();
    }
    const in8Bits = size * sum([...weights(false), ...biases].map(in8));
    for (const { sent } of ofRanks('ZeRO-3, gradients of 8 bits')) {
      expect(sent['allToAll']).toBe(in8Bits);
    }
  });

  it('of gradients are those of the closed form: all among the ranks of a host, half between hosts', () => {
    const hosts = size / 2;
    const expected = (size + hosts) * sum([...weights(true), ...biases].map(in4));
    for (const { sent } of ofRanks('FSDP, gradients by hosts')) {
      expect(sent['allToAll']).toBe(expected);
    }
  });
});
