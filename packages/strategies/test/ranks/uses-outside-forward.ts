import { createMesh } from '@shardwise/collectives';
import {
  fromData,
  nn,
  noGrad,
  optim,
  setRank,
  type Strategy,
  type Tensor,
  zeros,
} from '@shardwise/core';
import { currentSession } from '@shardwise/core/extend';
import {
  colwiseParallel,
  compose,
  ddp,
  fsdp,
  parallelize,
  rowwiseParallel,
  tensorParallel,
  zero,
} from '@shardwise/strategies';
import type { RankContext } from '@shardwise/testing/ranks';
import { z } from 'zod';
import { join } from '../../../../test/ranks/join.ts';

/** Ways to use a model's parameters outside its layers. Each adds a number to the loss. */
const uses = {
  'a penalty on a parameter': (_, p) => p.square().sum().mul(0.02),
  'the mean of a parameter': (_, p) => p.tanh().sum().div(p.numel),
  'a temperature': (net) => net.temperature.exp().mul(0.1),
  'a parameter without its gradient': (net, p) => p.detach().sum().mul(net.temperature).mul(0.01),
  'a parameter that is used twice': (net, p) => {
    const rows = p.ndim === 0 ? net.gate : p;
    return rows
      .mul(rows.slice(0, 0, 1))
      .sum()
      .mul(0.01);
  },
} as const satisfies Record<string, (net: Net, p: nn.Parameter) => Tensor>;

/** Uses that also read the batch. Their mean over the items equals the mean over the ranks' parts. */
const batchUses = {
  'a gate on the inputs': (net, x) => x.mul(net.gate).sum(1).square().mean().mul(0.1),
  'a weight in a method of its own': (net, x) => net.critic(x),
  'layers called one by one': (net, x) => net.hidden(x).square().mean().mul(0.3),
} as const satisfies Record<string, (net: Net, x: Tensor) => Tensor>;

/** Actions on a parameter between two steps. They return numbers that are the same on all ranks. */
const actions = {
  nothing: () => Promise.resolve([]),
  'clamp it': (_, p) => {
    noGrad(() => p.assign(p.clamp(-0.3, 0.3)));
    return Promise.resolve([]);
  },
  'read it': async (_, p) => Array.from(await p.data(), Number),
  'read its gradient': async (_, p) => Array.from(await (p.grad ?? zeros(p.shape)).data(), Number),
  'replace its gradient': (_, p) => {
    const { grad } = p;
    if (grad !== null) noGrad(() => p.setGradientNode(grad.mul(0.5).node));
    return Promise.resolve([]);
  },
  'load what was saved': async (net) => {
    await net.loadStateDict(await net.stateDict());
    return [];
  },
} as const satisfies Record<string, (net: Net, p: nn.Parameter) => Promise<number[]>>;

export const parameterCount = 8;
export const useNames = keysOf(uses);
export const batchUseNames = keysOf(batchUses);
export const actionNames = keysOf(actions);

const useSchema = z.object({ name: z.enum(useNames), parameter: z.number() });
export const programSchema = z.object({
  /** The uses inside the model's forward pass, in addition to its layers. */
  inside: z.array(useSchema).readonly(),
  /** The uses in the loss. */
  outside: z.array(useSchema).readonly(),
  batch: z.array(z.enum(batchUseNames)).readonly(),
  /** The action between the backward pass and the update. */
  action: z.enum(actionNames),
  parameter: z.number(),
  microbatches: z.number(),
  /** The number of a parameter that does not train. */
  frozen: z.number().nullable(),
});
export type Program = z.infer<typeof programSchema>;

export const taskSchema = z.object({
  dp: z.number(),
  tp: z.number(),
  programs: z.array(programSchema),
});

export const outcomeSchema = z.object({
  losses: z.array(z.number()),
  /** The numbers that actions returned, and all parameters at the end. */
  numbers: z.array(z.number()),
});
export type Outcome = z.infer<typeof outcomeSchema>;
/** The outcomes of all programs, by strategy. */
export const outcomesSchema = z.record(z.string(), z.array(outcomeSchema));

const steps = 2;
/** The number of items in the batch of all ranks. 1 to 4 ranks share it evenly. */
const globalBatch = 24;

class Net extends nn.Module {
  readonly layers = new nn.ModuleList([linear(6, 8), linear(8, 6)]);
  readonly head = linear(6, 4);
  readonly temperature = new nn.Parameter(Float32Array.of(0.3), []);
  readonly gate = new nn.Parameter(waves(6, 5), [6]);
  readonly #inside: Program['inside'];

  constructor(inside: Program['inside']) {
    super();
    this.#inside = inside;
  }

  /** Shape: x [B, 6] -> [B, 4]. */
  forward(x: Tensor): Tensor {
    const y = this.head.forward(this.hidden(x));
    return usesOf(this, this.#inside).reduce((sum, term) => sum.add(term), y);
  }

  /** Shape: x [B, 6] -> [B, 6]. */
  hidden(x: Tensor): Tensor {
    const [up, down] = this.layers;
    if (up === undefined || down === undefined) throw new RangeError('two layers');
    return down.forward(up.forward(x).gelu());
  }

  /** Shape: x [B, 6] -> []. */
  critic(x: Tensor): Tensor {
    const [up] = this.layers;
    if (up === undefined) throw new RangeError('two layers');
    return nn.functional.linear(x, up.weight, up.bias).tanh().mean();
  }
}

function usesOf(net: Net, list: Program['inside']): Tensor[] {
  const parameters = net.parameters();
  return list.map(({ name, parameter }) => uses[name](net, parameters[parameter] ?? net.gate));
}

function waves(count: number, seed: number): Float32Array<ArrayBuffer> {
  return Float32Array.from({ length: count }, (_, i) => Math.sin(seed + i * 1.7) / 2);
}

function linear(inputs: number, outputs: number): nn.Linear {
  const layer = new nn.Linear(inputs, outputs);
  layer.weight = new nn.Parameter(waves(inputs * outputs, inputs), [outputs, inputs]);
  layer.bias = new nn.Parameter(waves(outputs, outputs), [outputs]);
  return layer;
}

const batchStrategies: Readonly<Record<string, () => Strategy>> = {
  DDP: () => ddp({ findUnusedParameters: true }),
  'ZeRO-1': () => zero({ stage: 1 }),
  'ZeRO-2': () => zero({ stage: 2, bucketBytes: 64 }),
  'ZeRO-3': () => zero({ stage: 3 }),
  FSDP: () => fsdp(),
  'FSDP that keeps parameters': () => fsdp({ reshardAfterForward: false, prefetch: 2 }),
};

const cut = (): Strategy =>
  tensorParallel({ 'layers.0': colwiseParallel(), 'layers.1': rowwiseParallel() });

/** Returns the strategies for a mesh of these sizes. */
export function strategiesFor({
  dp,
  tp,
}: {
  readonly dp: number;
  readonly tp: number;
}): Readonly<Record<string, () => Strategy>> {
  if (tp === 1) return batchStrategies;
  if (dp === 1) return { 'tensor parallelism': cut };
  return Object.fromEntries(
    Object.entries(batchStrategies).map(([name, over]) => [
      `tensor parallelism × ${name}`,
      () => compose(cut(), over()),
    ]),
  );
}

export async function main(context: RankContext): Promise<z.infer<typeof outcomesSchema>> {
  const { dp, tp, programs } = taskSchema.parse(context.data);
  const { group } = await join(context, 'interpreter');
  const mesh = await createMesh(group, [
    { name: 'dp', size: dp },
    { name: 'tp', size: tp },
  ]);
  setRank({ device: currentSession().backend, mesh });
  const found: Record<string, Outcome[]> = {};
  for (const [name, strategy] of Object.entries(strategiesFor({ dp, tp }))) {
    const outcomes: Outcome[] = [];
    for (const program of programs) {
      const net = build(program);
      const parallel = await parallelize(net, strategy());
      const place = { rank: mesh.coordinate('dp'), size: dp };
      outcomes.push(await train(program, net, parallel, place));
    }
    found[name] = outcomes;
  }
  return found;
}

/** Trains on one rank without a strategy. */
export function trainAlone(program: Program): Promise<Outcome> {
  const net = build(program);
  const forward = (x: Tensor): Tensor => net.forward(x);
  return train(program, net, { forward, noSync: (body) => body() }, { rank: 0, size: 1 });
}

function build({ inside, frozen }: Program): Net {
  const net = new Net(inside);
  if (frozen !== null) net.parameters()[frozen]?.requiresGrad_(false);
  return net;
}

interface Passes {
  forward(x: Tensor): Tensor;
  noSync<T>(body: () => T): T;
}

async function train(
  { outside, batch, action, parameter, microbatches }: Program,
  net: Net,
  passes: Passes,
  { rank, size }: { readonly rank: number; readonly size: number },
): Promise<Outcome> {
  const optimizer = new optim.SGD(net.parameters(), { lr: 0.05, momentum: 0.5 });
  const [losses, numbers]: [number[], number[]] = [[], []];
  const share = globalBatch / size / microbatches;
  for (let step = 0; step < steps; step++) {
    optimizer.zeroGrad();
    const pass = (index: number): Tensor => {
      const first = (rank * microbatches + index) * share;
      const x = items(6, step, first, share);
      const fit = nn.functional.mseLoss(passes.forward(x), items(4, step + 50, first, share));
      const terms = [...usesOf(net, outside), ...batch.map((name) => batchUses[name](net, x))];
      const loss = terms.reduce((sum, term) => sum.add(term), fit).div(microbatches);
      loss.backward();
      return loss;
    };
    const parts = Array.from({ length: microbatches }, (_, index) =>
      index === microbatches - 1 ? pass(index) : passes.noSync(() => pass(index)),
    );
    const [p = net.gate] = net.parameters().slice(parameter);
    numbers.push(...(await actions[action](net, p)));
    await optimizer.step();
    losses.push(await parts.reduce((sum, part) => sum.add(part)).item());
  }
  for (const { bytes } of Object.values(await net.stateDict())) {
    numbers.push(...new Float32Array(bytes.slice().buffer));
  }
  return { losses, numbers };
}

/** Shape: -> [count, columns]. */
function items(columns: number, seed: number, first: number, count: number): Tensor {
  const values = Float32Array.from({ length: count * columns }, (_, i) =>
    Math.sin(seed * 31 + (first * columns + i) * 1.3),
  );
  return fromData(values, [count, columns], 'f32');
}

function keysOf<T extends object>(table: T): (keyof T)[] {
  return Object.keys(table).filter((key): key is string & keyof T => Object.hasOwn(table, key));
}
