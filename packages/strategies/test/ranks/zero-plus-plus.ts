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
import { currentSession } from '@shardwise/core/extend';
import { collectivesOf, fsdp, OffloadedOptimizer, parallelize, zero } from '@shardwise/strategies';
import type { RankContext } from '@shardwise/testing/ranks';
import { checkpoints } from 'shardwise';
import { z } from 'zod';
import { join } from '../../../../test/ranks/join.ts';
import { gridOf } from './grid.ts';

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

export const variants = {
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
export type VariantName = keyof typeof variants;
export const isVariant = (name: string): name is VariantName => Object.hasOwn(variants, name);

export const steps = 12;

const traffic = z.record(z.string(), z.number());
export const trained = z.object({
  losses: z.array(z.number()),
  /** A step's bytes of messages, by operation: those that were sent, and those of the plan. */
  sent: traffic,
  planned: traffic,
  /** The bytes of all messages of a step by the statistics of the rank. */
  counted: z.number(),
  parameters: z.record(z.string(), z.array(z.number())),
  /** The losses after half of the steps, with a model that began from a checkpoint of them. */
  resumed: z.array(z.number()),
});
export const results = z.record(z.string(), trained);

export const sizes = [24, 40, 40, 3] as const;
const globalBatch = 16;

export async function main(context: RankContext): Promise<z.infer<typeof results>> {
  const { group, mesh: line } = await join(context);
  const { directory } = z.object({ directory: z.string() }).parse(context.data);
  const { backend: device } = currentSession();
  const found: Record<string, z.infer<typeof trained>> = {};
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
  ): Promise<Pick<z.infer<typeof trained>, 'sent' | 'planned' | 'counted'>> {
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
