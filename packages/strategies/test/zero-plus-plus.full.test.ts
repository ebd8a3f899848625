import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import {
  fromData,
  hostPages,
  manualSeed,
  nn,
  optim,
  statistics,
  type Strategy,
  subscribe,
  type Tensor,
} from '@shardwise/core';
import { collectivesOf, fsdp, OffloadedOptimizer, parallelize, zero } from '@shardwise/strategies';
import { onRanks, type RankInThread } from '@shardwise/testing/node';
import { checkpoints } from 'shardwise';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { stateOf } from '../../../test/support/model-values.ts';
import { onCpu } from '../../../test/support/on-cpu.ts';

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

const steps = 4;

const sizes = [24, 40, 40, 3] as const;
const globalBatch = 16;
const size = 4;

/** Trains as one rank. */
async function train(name: VariantName, rank: RankInThread) {
  const variant: Variant = variants[name];
  const first = await begin(variant);
  const losses = await trainFrom(first, rank, 0, steps / 2);
  const folder = join(directory, name.replaceAll(/\W+/g, '-'));
  const { model, optimizer } = first;
  await checkpoints.save(folder, { step: steps / 2, model, optimizer }, { group: rank.group });
  losses.push(...(await trainFrom(first, rank, steps / 2, steps)));
  const counts = await count(first, rank);
  const second = await begin(variant);
  const checkpoint = await checkpoints.load(folder);
  await checkpoints.loadModel(checkpoint, second.model);
  await checkpoints.loadOptimizer(checkpoint, second.model, second.optimizer);
  /** The losses after half of the steps, with a model that began from a checkpoint of them. */
  const resumed = await trainFrom(second, rank, steps / 2, steps);
  return { losses, ...counts, parameters: await stateOf(second.model), resumed };
}

type Training = Awaited<ReturnType<typeof begin>>;

/** Returns the losses of the batch of all ranks. */
async function trainFrom(
  { model, optimizer, forward }: Training,
  rank: RankInThread,
  start: number,
  stop: number,
): Promise<number[]> {
  const losses: number[] = [];
  for (let step = start; step < stop; step++) {
    model.zeroGrad();
    const { x, y } = batchOf(step, rank);
    const loss = nn.functional.mseLoss(forward(x), y);
    loss.backward();
    await optimizer.step();
    const all = new Float32Array(size);
    const own = Float32Array.of(await loss.item());
    await rank.group.allGather(
      { bytes: new Uint8Array(own.buffer), dtype: 'f32' },
      { bytes: new Uint8Array(all.buffer), dtype: 'f32' },
    );
    losses.push(all.reduce((sum, each) => sum + each, 0) / size);
  }
  return losses;
}

/** The bytes of the messages of a step, by operation: those that were sent, those of the plan, and all counted. */
async function count(training: Training, rank: RankInThread) {
  const sent: Record<string, number> = {};
  const before = statistics();
  const unsubscribe = subscribe(({ category, name, bytes = 0 }) => {
    if (category !== 'collective') return;
    sent[name] = (sent[name] ?? 0) + bytes;
  });
  training.model.zeroGrad();
  const { x, y } = batchOf(steps, rank);
  // Without this the backward pass does not read the first weight.
  nn.functional.mseLoss(training.forward(x.requiresGrad_()), y).backward();
  await training.optimizer.step();
  unsubscribe();
  const planned: Record<string, number> = {};
  for (const { when, operation, bytes } of collectivesOf(training.parallel.plan)) {
    if (when !== 'start') planned[operation] = (planned[operation] ?? 0) + bytes;
  }
  return { sent, planned, counted: statistics().collectiveBytes - before.collectiveBytes };
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

let directory = '';

beforeAll(async () => {
  directory = await mkdtemp(join(tmpdir(), 'shardwise-zero-plus-plus-'));
});

afterAll(() => rm(directory, { recursive: true, force: true }));

type Trained = Awaited<ReturnType<typeof train>>;
const known = new Map<VariantName, Promise<readonly Trained[]>>();

/** What the ranks trained. Several tests look at it. */
function ofRanks(name: VariantName): Promise<readonly Trained[]> {
  const { replicas = 1 }: Variant = variants[name];
  const axes = [
    { name: 'replicas', size: replicas },
    { name: 'dp', size: size / replicas },
  ].slice(replicas === 1 ? 1 : 0);
  const found = known.get(name) ?? onRanks(size, (rank) => train(name, rank), { ...onCpu, axes });
  known.set(name, found);
  return found;
}

async function lossesOf(name: VariantName): Promise<readonly number[]> {
  return (await ofRanks(name))[0]?.losses ?? [];
}

describe.each(Object.keys(variants).filter(isVariant))('%s on four ranks', (name) => {
  it('ends with the same parameters on all ranks, bit for bit', async () => {
    const [first, ...others] = await ofRanks(name);
    expect(others).toHaveLength(size - 1);
    expect(Object.keys(first?.parameters ?? {})).toHaveLength(6);
    for (const { parameters } of others) expect(parameters).toEqual(first?.parameters);
  });

  it('sends in a step the bytes that its plan says', async () => {
    for (const { sent, planned, counted } of await ofRanks(name)) {
      expect(sent).toEqual(planned);
      expect(counted).toBe(Object.values(planned).reduce((sum, bytes) => sum + bytes, 0));
    }
  });

  it('goes on from a checkpoint as if it had not stopped, bit for bit', async () => {
    const { losses = [], resumed } = (await ofRanks(name))[0] ?? {};
    expect(losses).toHaveLength(steps);
    expect(resumed).toEqual(losses.slice(steps / 2));
  });
});

describe('the losses', () => {
  const far = async (name: VariantName, of: VariantName): Promise<number> => {
    const exact = await lossesOf(of);
    const losses = await lossesOf(name);
    expect(exact).toHaveLength(steps);
    return Math.max(
      ...losses.map((loss, step) => Math.abs(loss - (exact[step] ?? NaN)) / (exact[0] ?? NaN)),
    );
  };

  it('are those of exact messages with a second copy alone, bit for bit', async () => {
    expect(await lossesOf('ZeRO-3, copy')).toEqual(await lossesOf('ZeRO-3'));
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
  ])('of %s are as close to those of %s as %d of the first loss', async (name, exact, bound) => {
    const distance = await far(name, exact);
    expect(distance).toBeGreaterThan(0);
    expect(distance).toBeLessThan(bound);
  });

  it.each<VariantName>(['FSDP, all, unused parameters', 'FSDP, all, pages'])(
    'of %s are those of FSDP, all, bit for bit',
    async (name) => {
      expect(await lossesOf(name)).toEqual(await lossesOf('FSDP, all'));
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
  ])('of gathers of %s are those of the closed form', async (name, rows, gather) => {
    // The backward pass reads no bias.
    const parts = [...weights(rows), ...weights(rows), ...biases];
    const expected = size * sum(parts.map(gather));
    for (const { sent } of await ofRanks(name)) expect(sent['allGather']).toBe(expected);
  });

  it('of gathers of frozen weights alone are 8 bits', async () => {
    const [first = 0, ...others] = weights(false);
    const [bias = 0, ...otherBiases] = biases;
    const trained = [...others, ...others, ...otherBiases];
    const expected = size * (2 * in8(first) + in8(bias) + sum(trained.map(f32)));
    for (const { sent } of await ofRanks('ZeRO-3, frozen weights')) {
      expect(sent['allGather']).toBe(expected);
    }
  });

  it('of gradients are those of the closed form: once over all ranks', async () => {
    const expected = size * sum([...weights(false), ...biases].map(in4));
    for (const { sent } of await ofRanks('ZeRO-3, gradients')) {
      expect(sent['allToAll']).toBe(expected);
      expect(sent['reduceScatter']).toBeUndefined();
    }
    const in8Bits = size * sum([...weights(false), ...biases].map(in8));
    for (const { sent } of await ofRanks('ZeRO-3, gradients of 8 bits')) {
      expect(sent['allToAll']).toBe(in8Bits);
    }
  });

  it('of gradients are those of the closed form: all among the ranks of a host, half between hosts', async () => {
    const hosts = size / 2;
    const expected = (size + hosts) * sum([...weights(true), ...biases].map(in4));
    for (const { sent } of await ofRanks('FSDP, gradients by hosts')) {
      expect(sent['allToAll']).toBe(expected);
    }
  });
});
