import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import {
  fromData,
  hostPages,
  manualSeed,
  nn,
  optim,
  setRank,
  statistics,
  type Strategy,
  subscribe,
  type Tensor,
} from '@shardwise/core';
import { collectivesOf, fsdp, OffloadedOptimizer, parallelize, zero } from '@shardwise/strategies';
import { onRanks, type RankInThread } from '@shardwise/testing/node';
import { checkpoints } from 'shardwise';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { onCpu } from '../../../test/support/on-cpu.ts';
import { gridOf } from './ranks/grid.ts';
import { testMs } from './time-limits.ts';

interface Variant {
  readonly strategy: () => Strategy;
  /** The size of a second mesh axis. */
  readonly replicas?: number;
  /** Whether states of the optimizer and parts of parameters are kept on the host. */
  readonly offloaded?: boolean;
  /** Whether the first layer does not train. */
  readonly frozen?: boolean;
}

const bf16 = { parameterDtype: 'bf16' } as const;
const all = {
  zeroQuantizedWeights: true,
  zeroQuantizedGradients: true,
  zeroHpzPartitionSize: 2,
} as const;

const variants = {
  'ZeRO-3': { strategy: () => zero({ stage: 3 }) },
  FSDP: { strategy: () => fsdp() },
  'ZeRO-3, weights': { strategy: () => zero({ stage: 3, zeroQuantizedWeights: true }) },
  'FSDP, weights': { strategy: () => fsdp({ zeroQuantizedWeights: true }) },
  'ZeRO-3, gradients of 8 bits': {
    strategy: () => zero({ stage: 3, zeroQuantizedGradients: { bits: 8 } }),
  },
  'ZeRO-3, gradients': { strategy: () => zero({ stage: 3, zeroQuantizedGradients: true }) },
  'FSDP, gradients': { strategy: () => fsdp({ zeroQuantizedGradients: true }) },
  'FSDP, gradients by hosts': {
    strategy: () => fsdp({ zeroQuantizedGradients: { ranksPerHost: 2 } }),
  },
  'ZeRO-3, copy': { strategy: () => zero({ stage: 3, zeroHpzPartitionSize: 2 }) },
  'ZeRO-3, all': { strategy: () => zero({ stage: 3, ...all }) },
  'FSDP, all': { strategy: () => fsdp(all) },
  'ZeRO-3, frozen weights': {
    strategy: () => zero({ stage: 3, zeroQuantizedNontrainableWeights: true }),
    frozen: true,
  },
  'FSDP, all, bf16': { strategy: () => fsdp({ ...all, mixedPrecision: bf16 }) },
  'FSDP, all, unused parameters': {
    strategy: () => fsdp({ ...all, findUnusedParameters: true, prefetch: 2 }),
  },
  'FSDP, all, pages': {
    strategy: () => fsdp({ ...all, pages: hostPages() }),
    offloaded: true,
  },
  'FSDP, all, replicas': {
    strategy: () =>
      fsdp({ zeroQuantizedWeights: true, zeroQuantizedGradients: true, replicas: 'replicas' }),
    replicas: 2,
  },
} as const satisfies Record<string, Variant>;
type VariantName = keyof typeof variants;
const isVariant = (name: string): name is VariantName => Object.hasOwn(variants, name);

const steps = 6;

type Traffic = Record<string, number>;
interface Trained {
  losses: number[];
  /** A step's bytes of messages, by operation: those that were sent, and those of the plan. */
  sent: Traffic;
  planned: Traffic;
  /** The bytes of all messages of a step by the statistics of the rank. */
  counted: number;
  parameters: Record<string, number[]>;
  /** The losses after half of the steps, with a model that began from a checkpoint of them. */
  resumed: number[];
}
type Results = Record<string, Trained>;

const sizes = [24, 40, 40, 3] as const;
const globalBatch = 16;

async function observe(context: RankInThread, directory: string): Promise<Results> {
  const { group, device, mesh: line } = context;
  const found: Record<string, Trained> = {};
  for (const [name, variant] of Object.entries<Variant>(variants)) {
    const { replicas } = variant;
    setRank({ device, mesh: replicas === undefined ? line : await gridOf(group, replicas) });
    const first = await begin(variant);
    const losses = await train(first, 0, steps / 2);
    const folder = `${directory}/${name.replaceAll(/\W+/g, '-')}`;
    const { model, optimizer } = first;
    await checkpoints.save(folder, { step: steps / 2, model, optimizer }, { group });
    losses.push(...(await train(first, steps / 2, steps)));
    const counts = await count(first);
    const second = await begin(variant);
    const checkpoint = await checkpoints.load(folder);
    await checkpoints.loadModel(checkpoint, second.model);
    await checkpoints.loadOptimizer(checkpoint, second.model, second.optimizer);
    const resumed = await train(second, steps / 2, steps);
    const state = Object.entries(await second.model.stateDict());
    const parameters = Object.fromEntries(
      state.map(([key, { bytes }]) => [key, [...new Float32Array(bytes.slice().buffer)]]),
    );
    found[name] = { losses, ...counts, parameters, resumed };
  }
  return found;

  /** Trains, and returns the losses of the batch of all ranks. */
  async function train(
    training: Awaited<ReturnType<typeof begin>>,
    start: number,
    stop: number,
  ): Promise<number[]> {
    const losses: number[] = [];
    for (let step = start; step < stop; step++) losses.push(await update(training, step));
    return losses;
  }

  async function update(
    { model, optimizer, forward }: Awaited<ReturnType<typeof begin>>,
    step: number,
  ): Promise<number> {
    model.zeroGrad();
    const { x, y } = batchOf(step, context);
    const loss = nn.functional.mseLoss(forward(x), y);
    loss.backward();
    await optimizer.step();
    const own = await loss.item();
    const all = new Float32Array(context.size);
    const sent = Float32Array.of(own);
    await group.allGather(
      { bytes: new Uint8Array(sent.buffer), dtype: 'f32' },
      { bytes: new Uint8Array(all.buffer), dtype: 'f32' },
    );
    return all.reduce((sum, each) => sum + each, 0) / context.size;
  }

  async function count(
    training: Awaited<ReturnType<typeof begin>>,
  ): Promise<Pick<Trained, 'sent' | 'planned' | 'counted'>> {
    const sent: Record<string, number> = {};
    const before = statistics();
    const unsubscribe = subscribe(({ category, name, detail = '' }) => {
      if (category !== 'collective') return;
      sent[name] = (sent[name] ?? 0) + Number.parseInt(detail, 10);
    });
    training.model.zeroGrad();
    const { x, y } = batchOf(steps, context);
    // Without this the backward pass does not read the first weight.
    nn.functional.mseLoss(training.forward(x.requiresGrad_()), y).backward();
    await training.optimizer.step();
    unsubscribe();
    const planned: Record<string, number> = {};
    for (const { when, operation, bytes } of collectivesOf(training.parallel.plan)) {
      if (when !== 'start') planned[operation] = (planned[operation] ?? 0) + bytes;
    }
    return {
      sent,
      planned,
      counted: statistics().collectiveBytes - before.collectiveBytes,
    };
  }
}

async function begin({ strategy, offloaded = false, frozen = false }: Variant) {
  manualSeed(0);
  const layers = sizes.slice(1).flatMap((size, index) => {
    const layer = new nn.Linear(sizes[index] ?? 0, size);
    return index === sizes.length - 2 ? [layer] : [layer, new nn.Tanh()];
  });
  if (frozen) layers[0]?.requiresGrad_(false);
  const model = new nn.Sequential(...layers);
  const parallel = await parallelize(model, strategy());
  const inner = new optim.AdamW(model.parameters(), { lr: 0.01 });
  const pages = hostPages();
  const optimizer = offloaded
    ? new OffloadedOptimizer(model, inner, { states: pages, parameters: pages })
    : inner;
  return { model, parallel, optimizer, forward: (x: Tensor) => parallel.forward(x) };
}

function batchOf(
  step: number,
  { rank, size }: { readonly rank: number; readonly size: number },
): { readonly x: Tensor; readonly y: Tensor } {
  const share = globalBatch / size;
  const items = (columns: number, of: (index: number) => number): Tensor => {
    const values = Float32Array.from({ length: share * columns }, (_, i) =>
      of((step * globalBatch + rank * share) * columns + i),
    );
    return fromData(values, [share, columns], 'f32');
  };
  const [inputs, , , outputs] = sizes;
  return {
    x: items(inputs, (index) => Math.sin(index * 1.3)),
    y: items(outputs, (index) => Math.cos(Math.floor(index / outputs) * 1.3 * inputs) / 2),
  };
}

const size = 4;
let directory = '';
let ranks: readonly Results[] = [];

beforeAll(async () => {
  directory = await mkdtemp(join(tmpdir(), 'shardwise-zero-plus-plus-'));
  ranks = await onRanks(size, (rank) => observe(rank, directory), onCpu);
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
