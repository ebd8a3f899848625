import { mkdtemp, rm } from 'node:fs/promises';
import { readFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import {
  ConfigError,
  fromData,
  LayoutError,
  nn,
  optim,
  type ParameterSpec,
  type Strategy,
  type Tensor,
} from '@shardwise/core';
import {
  ddp,
  diloco,
  explain,
  localSgd,
  type OuterState,
  parallelize,
} from '@shardwise/strategies';
import { onRanks } from '@shardwise/testing/node';
import { checkpoints } from 'shardwise';
import { describe, expect, it, onTestFinished } from 'vitest';
import { z } from 'zod';

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
const size = 2;
const rows = 5;

/** A layer whose weights are sines of their place. */
function layer(inputs: number, outputs: number, first: number): nn.Linear {
  const made = new nn.Linear(inputs, outputs);
  const sines = (shape: readonly number[], from: number): Tensor => {
    const length = shape.reduce((product, dim) => product * dim, 1);
    const values = Float32Array.from({ length }, (_, at) => Math.sin(at + from));
    return fromData(values, shape, 'f32');
  };
  made.weight.assign(sines([outputs, inputs], first));
  made.bias?.assign(sines([outputs], first + inputs * outputs));
  return made;
}

function batch(step: number, rank: number): { readonly x: Tensor; readonly y: Tensor } {
  const x = Float32Array.from({ length: rows * 3 }, (_, at) => Math.sin(at + 7 * step + 3 * rank));
  const y = Float32Array.from({ length: rows * 4 }, (_, at) =>
    Math.cos(0.3 * at + 5 * step + rank),
  );
  return { x: fromData(x, [rows, 3], 'f32'), y: fromData(y, [rows, 4], 'f32') };
}

async function valuesOf(model: nn.Module): Promise<readonly number[]> {
  const values: number[] = [];
  for (const parameter of model.parameters()) {
    values.push(...Array.from(await parameter.data(), Number));
  }
  return values;
}

/** A strategy, and its outer steps if it has any. */
type MakeStrategy = () => Strategy & { readonly outer?: OuterState };

/** The model of tools/golden-diloco.py. */
async function begin(makeStrategy: MakeStrategy) {
  const model = new nn.Sequential(layer(3, 4, 0), new nn.Tanh(), layer(4, 4, 100));
  const strategy = makeStrategy();
  const parallel = await parallelize(model, strategy);
  const optimizer = new optim.SGD(model.parameters(), { lr: 0.1 });
  return { model, parallel, optimizer, outer: strategy.outer };
}

/** A training of one rank. */
interface Trained {
  readonly losses: readonly number[];
  readonly parameters: readonly number[];
  /** The parameters after `synchronize()`. */
  readonly synchronized: readonly number[];
  /** The values that ranks have in common after each step. */
  readonly anchors: readonly (readonly number[])[];
}

/**
 * Trains on two ranks, and expects that outer steps leave the same values on both, bit for bit. With `interruptedAfter`,
 * it saves after so many steps and goes on with a new model.
 */
async function train(
  makeStrategy: MakeStrategy,
  { interruptedAfter }: { readonly interruptedAfter?: number } = {},
): Promise<readonly Trained[]> {
  const folder = await mkdtemp(join(tmpdir(), 'shardwise-outer-'));
  onTestFinished(() => rm(folder, { recursive: true, force: true }));
  const ranks = await onRanks(size, async ({ rank, group }): Promise<Trained> => {
    const losses: number[] = [];
    const anchors: (readonly number[])[] = [];
    let run = await begin(makeStrategy);
    for (let step = 0; step < 18; step++) {
      if (interruptedAfter === step) {
        const { model, optimizer, outer } = run;
        const states = outer === undefined ? {} : { outer };
        await checkpoints.save(folder, { step, model, optimizer, states }, { group });
        run = await begin(makeStrategy);
        const checkpoint = await checkpoints.load(folder);
        await checkpoints.loadModel(checkpoint, run.model);
        await checkpoints.loadOptimizer(checkpoint, run.model, run.optimizer);
        const again = run.outer === undefined ? {} : { outer: run.outer };
        await checkpoints.loadStates(checkpoint, again, { group });
      }
      const { parallel, optimizer, outer } = run;
      const { x, y } = batch(step, rank);
      optimizer.zeroGrad();
      const loss = parallel.forward(x).sub(y).square().mean();
      loss.backward();
      await optimizer.step();
      losses.push(await loss.item());
      const fragments = (await outer?.stateDict())?.fragments ?? [];
      anchors.push(
        fragments.flatMap(({ anchor }) => [...new Float32Array(anchor.bytes.slice().buffer)]),
      );
    }
    const parameters = await valuesOf(run.model);
    await run.outer?.synchronize();
    return { losses, parameters, synchronized: await valuesOf(run.model), anchors };
  });
  const [first, second] = ranks;
  expect(second?.anchors).toEqual(first?.anchors);
  expect(second?.synchronized).toEqual(first?.synchronized);
  return ranks;
}

function expectClose(values: readonly number[], expected: readonly number[], digits: number): void {
  expect(values).toHaveLength(expected.length);
  for (const [index, value] of values.entries()) {
    expect(value).toBeCloseTo(expected[index] ?? Number.NaN, digits);
  }
}

describe('outer steps leave the same values on all ranks and', () => {
  it.each(Object.entries(golden.cases))(
    'compute what torchft computes: %s',
    async (name, { options, replicas }) => {
      const all = { ...options, every };
      const ranks = await train(() => (name === 'localSgd' ? localSgd(all) : diloco(all)));
      for (const [rank, { losses, parameters }] of ranks.entries()) {
        expectClose(losses, replicas[rank]?.losses ?? [], 5);
        expectClose(parameters, replicas[rank]?.parameters ?? [], 5);
      }
    },
  );

  it('are data parallelism if each follows one update of SGD', async () => {
    const dataParallel = await train(() => ddp());
    const outer = await train(() => diloco({ every: 1, outer: { lr: 1, momentum: 0 } }));
    for (const [rank, { losses, parameters }] of outer.entries()) {
      expectClose(losses, dataParallel[rank]?.losses ?? [], 6);
      expectClose(parameters, dataParallel[rank]?.parameters ?? [], 6);
    }
  });

  it.each([
    // The median of two values is their mean.
    ['are aggregated by their median', { aggregate: 'median' }, 1e-6],
    ['are aggregated by their median in eight bits', { aggregate: 'median', bits: 8 }, 0.02],
    ['have eight bits', { bits: 8 }, 0.02],
    ['have four bits', { bits: 4, fragments: 2 }, 0.4],
  ] as const)('stay near those of an exact mean if messages %s', async (_, options, distance) => {
    const exact = await train(() => diloco({ ...golden.cases['diloco']?.options, every }));
    const ranks = await train(() => diloco({ ...options, every }));
    for (const [rank, { synchronized }] of ranks.entries()) {
      const apart = synchronized.map((value, at) =>
        Math.abs(value - (exact[rank]?.synchronized[at] ?? Number.NaN)),
      );
      expect(Math.max(...apart)).toBeLessThan(distance);
    }
  });

  it.each([4, 7, 11])(
    'go on from a checkpoint after %s updates, bit for bit, also if a message is on its way',
    async (interruptedAfter) => {
      const strategy: MakeStrategy = () =>
        diloco({ every, fragments: 2, fragmentSyncDelay: 2, fragmentUpdateAlpha: 0.5, bits: 4 });
      expect(await train(strategy, { interruptedAfter })).toEqual(await train(strategy));
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
  it('says what a rank sends per step beside data parallelism', async () => {
    const plan = diloco({ every: 50, fragments: 2, bits: 4 }).plan({ parameters }, axes);
    // A rank of its own: sizes that have varied in this thread are explained, too.
    const [text] = await onRanks(1, async () => explain(plan));
    expect(text).toMatchInlineSnapshot(`
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
