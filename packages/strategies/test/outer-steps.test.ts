import { mkdtemp, rm } from 'node:fs/promises';
import { readFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createThreadsWorld } from '@shardwise/collectives';
import { ConfigError, LayoutError, type ParameterSpec } from '@shardwise/core';
import { diloco, explain, localSgd } from '@shardwise/strategies';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { z } from 'zod';
import { runRanks } from '../../../test/support/run-ranks.ts';
import type { OuterTraining } from './ranks/outer-steps.ts';
import { testMs, trainingMs } from './time-limits.ts';

const size = 2;

const observations = z.object({
  losses: z.array(z.number()),
  parameters: z.array(z.number()),
  synchronized: z.array(z.number()).nullable(),
  anchors: z.array(z.array(z.number())),
});
type Observations = z.infer<typeof observations>;

const golden = z
  .object({
    every: z.number(),
    cases: z.record(
      z.string(),
      z.object({
        options: z.looseObject({}),
        replicas: z.array(
          z.object({ losses: z.array(z.number()), parameters: z.array(z.number()) }),
        ),
      }),
    ),
  })
  .parse(JSON.parse(readFileSync(new URL('./golden/diloco.json', import.meta.url), 'utf8')));

const { every } = golden;
const steps = 18;

const ofTorchft: Readonly<Record<string, OuterTraining>> = Object.fromEntries(
  Object.entries(golden.cases).map(([name, { options }]) => {
    const strategy = name === 'localSgd' ? 'localSgd' : 'diloco';
    return [name, { strategy, options: { ...options, every }, steps }];
  }),
);

const sgd = { lr: 1, momentum: 0 };
const others = {
  'data parallelism': { strategy: 'ddp', options: { every: 1 }, steps },
  'an outer step after each update': {
    strategy: 'diloco',
    options: { every: 1, outer: sgd },
    steps,
  },
  'eight bits': { strategy: 'diloco', options: { every, bits: 8 }, steps },
  'a median': { strategy: 'diloco', options: { every, aggregate: 'median' }, steps },
  'a median in eight bits': {
    strategy: 'diloco',
    options: { every, aggregate: 'median', bits: 8 },
    steps,
  },
  'four bits': { strategy: 'diloco', options: { every, bits: 4, fragments: 2 }, steps },
} as const satisfies Readonly<Record<string, OuterTraining>>;

/** A training that is interrupted while a message is on its way, and the same without an interruption. */
const overlapping = {
  every,
  fragments: 2,
  fragmentSyncDelay: 2,
  fragmentUpdateAlpha: 0.5,
  bits: 4,
} as const;
const throughout: OuterTraining = { strategy: 'diloco', options: overlapping, steps };

const trainings: Readonly<Record<string, OuterTraining>> = { ...ofTorchft, ...others, throughout };

let directory = '';
let found: Readonly<Record<string, readonly Observations[]>> = {};

beforeAll(async () => {
  directory = await mkdtemp(join(tmpdir(), 'shardwise-outer-'));
  const resumed = Object.fromEntries(
    [4, 7, 11].map((after) => [
      `resumed after ${after}`,
      { ...throughout, interrupted: { folder: join(directory, String(after)), after } },
    ]),
  );
  const all: Readonly<Record<string, OuterTraining>> = { ...trainings, ...resumed };
  const ranks = await runRanks(size, new URL('./ranks/outer-steps.ts', import.meta.url), {
    world: createThreadsWorld({ size, arenaBytes: 16 * 1024 * 1024 }),
    data: Object.values(all),
    timeoutMs: trainingMs,
  });
  const parsed = z.array(z.array(observations)).length(size).parse(ranks);
  found = Object.fromEntries(
    Object.keys(all).map((name, index) => [name, parsed.flatMap((rank) => rank[index] ?? [])]),
  );
}, testMs);

afterAll(() => rm(directory, { recursive: true, force: true }));

function ranksOf(name: string): readonly Observations[] {
  const { [name]: ranks } = found;
  expect(ranks).toHaveLength(size);
  return ranks ?? [];
}

function expectClose(values: readonly number[], expected: readonly number[], digits: number): void {
  expect(values).toHaveLength(expected.length);
  for (const [index, value] of values.entries()) {
    expect(value).toBeCloseTo(expected[index] ?? Number.NaN, digits);
  }
}

describe('outer steps compute what torchft computes', () => {
  it.each(Object.keys(ofTorchft))('%s', (name) => {
    const { [name]: expected } = golden.cases;
    for (const [rank, { losses, parameters }] of ranksOf(name).entries()) {
      const replica = expected?.replicas[rank];
      expectClose(losses, replica?.losses ?? [], 5);
      expectClose(parameters, replica?.parameters ?? [], 5);
    }
  });
});

describe('outer steps', () => {
  it('leave the same values on all ranks, bit for bit', () => {
    for (const name of Object.keys(found).filter((each) => each !== 'data parallelism')) {
      const [first, second] = ranksOf(name);
      expect(first?.anchors).toEqual(second?.anchors);
      expect(first?.synchronized).toEqual(second?.synchronized);
    }
  });

  it('are data parallelism if each follows one update of SGD', () => {
    const everyUpdate = ranksOf('an outer step after each update');
    for (const [rank, { losses, parameters }] of ranksOf('data parallelism').entries()) {
      expectClose(everyUpdate[rank]?.losses ?? [], losses, 6);
      expectClose(everyUpdate[rank]?.parameters ?? [], parameters, 6);
    }
  });

  it('stay near those of an exact mean if messages have few bits, or are aggregated otherwise', () => {
    const exact = ranksOf('diloco');
    for (const [name, distance] of [
      // The median of two values is their mean.
      ['a median', 1e-6],
      ['a median in eight bits', 0.02],
      ['eight bits', 0.02],
      ['four bits', 0.4],
    ] as const) {
      for (const [rank, { synchronized }] of ranksOf(name).entries()) {
        const apart = (synchronized ?? []).map((value, at) =>
          Math.abs(value - (exact[rank]?.synchronized?.[at] ?? Number.NaN)),
        );
        expect(Math.max(...apart)).toBeLessThan(distance);
      }
    }
  });

  it.each([4, 7, 11])(
    'go on from a checkpoint after %s updates, bit for bit, also if a message is on its way',
    (after) => {
      const resumed = ranksOf(`resumed after ${after}`);
      for (const [rank, { losses, parameters, anchors }] of ranksOf('throughout').entries()) {
        expect(resumed[rank]?.losses).toEqual(losses);
        expect(resumed[rank]?.parameters).toEqual(parameters);
        expect(resumed[rank]?.anchors).toEqual(anchors);
      }
    },
  );
});

const parameters: readonly ParameterSpec[] = [
  { name: 'embedding.weight', shape: [11, 4], dtype: 'f32', requiresGrad: false },
  { name: 'up.weight', shape: [32, 32], dtype: 'f32', requiresGrad: true },
  { name: 'down.weight', shape: [32, 32], dtype: 'f32', requiresGrad: true },
];
const axes = [{ name: 'dp', size: 8 }];

describe('explain', () => {
  it('says what a rank sends per step beside data parallelism', () => {
    const strategy = diloco({ every: 50, fragments: 2, bits: 4 });
    expect(explain(strategy.plan({ parameters }, axes))).toMatchInlineSnapshot(`
      "diloco on dp=8; batch: shard(0: dp)

      parameter         dtype  shape     layout       gradient     bytes
      embedding.weight  f32    [11, 4]   replicate    frozen       176
      up.weight         f32    [32, 32]  varying(dp)  varying(dp)  4096
      down.weight       f32    [32, 32]  varying(dp)  varying(dp)  4096

      when                 collective  axis  of            bytes
      start                broadcast   dp    3 parameters  8368
      optimizer, every 50  allToAll    dp    2 parameters  1088
      optimizer, every 50  allGather   dp    2 parameters  1088

      outer steps: every 50 updates, in 2 fragments
      bytes that a rank sends per step, in the mean: 38; ddp: 14336, 1/376

      per rank          bytes
      parameters        8368
      gradients         8192
      optimizer states  16384
      buffers           not known
      activations       not known
      sum               32944

      optimizer states: assumed to be those of Adam; give { optimizerTensors } for another optimizer
      states: 16Ψ = 16 × 2048 = 32768 bytes, Ψ = 2048 trained elements; 176 bytes are frozen or padding"
    `);
  });

  it('says the same of exact messages', () => {
    const text = explain(localSgd({ every: 10 }).plan({ parameters }, axes));
    // A ring sends 2 · 7/8 of the bytes of an all-reduce.
    expect(text).toContain('bytes that a rank sends per step, in the mean: 1434; ddp: 14336, 1/10');
  });
});

describe('options that do not fit are refused', () => {
  const planOf = (options: Parameters<typeof diloco>[0]) => (): unknown =>
    diloco(options).plan({ parameters }, axes);

  it.each([
    ['no whole number of updates', { every: 1.5 }],
    ['a momentum of 1', { every: 2, outer: { momentum: 1 } }],
    ['a negative learning rate', { every: 2, outer: { lr: -1 } }],
    ['three bits', { every: 2, bits: 3 }],
    ['a share above 1', { every: 2, fragmentUpdateAlpha: 2 }],
  ] as const)('%s', (_, options) => {
    expect(planOf(options as never)).toThrow(ConfigError);
  });

  it('more fragments than parameters', () => {
    expect(planOf({ every: 3, fragments: 3 })).toThrow(LayoutError);
  });
});
