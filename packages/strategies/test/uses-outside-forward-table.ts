import {
  fromData,
  type Mesh,
  nn,
  noGrad,
  optim,
  type Strategy,
  type Tensor,
  zeros,
} from '@shardwise/core';
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
import { onRanks } from '@shardwise/testing/node';
import * as fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { stateOf } from '../../../test/support/model-values.ts';
import { someForRow } from '../../../test/support/some-for-row.ts';
import { expectAsOneRank, oncePerKey, type Trained } from './as-one-rank.ts';

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

const parameterCount = 8;
const useNames = keysOf(uses);
const batchUseNames = keysOf(batchUses);
const actionNames = keysOf(actions);

interface Use {
  name: keyof typeof uses;
  parameter: number;
}
interface Program {
  /** The uses inside the model's forward pass, in addition to its layers. */
  inside: readonly Use[];
  /** The uses in the loss. */
  outside: readonly Use[];
  batch: readonly (keyof typeof batchUses)[];
  /** The action between the backward pass and the update. */
  action: keyof typeof actions;
  parameter: number;
  microbatches: number;
  /** The number of a parameter that does not train. */
  frozen: number | null;
}

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
function strategiesFor({
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

/** Trains on this rank. */
async function trainBy(program: Program, strategy: () => Strategy, mesh: Mesh): Promise<Trained> {
  const net = build(program);
  return train(program, net, await parallelize(net, strategy()), mesh.group('dp'));
}

const alone = oncePerKey((program: Program) => {
  const net = build(program);
  const forward = (x: Tensor): Tensor => net.forward(x);
  return train(program, net, { forward, noSync: (body) => body() }, { rank: 0, size: 1 });
});

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
): Promise<Trained> {
  const optimizer = new optim.SGD(net.parameters(), { lr: 0.05, momentum: 0.5 });
  const losses: number[] = [];
  /** What actions returned. */
  const numbers: number[] = [];
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
  return { losses, state: { ...(await stateOf(net)), numbers } };
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

const parameter = fc.nat(parameterCount - 1);
const use = fc.record({ name: fc.constantFrom(...useNames), parameter });
const program: fc.Arbitrary<Program> = fc.record({
  inside: fc.array(use, { maxLength: 2 }),
  outside: fc.array(use, { maxLength: 3 }),
  batch: fc.uniqueArray(fc.constantFrom(...batchUseNames)),
  action: fc.constantFrom(...actionNames),
  parameter,
  microbatches: fc.integer({ min: 1, max: 2 }),
  frozen: fc.option(parameter, { freq: 3 }),
});
const random = fc.sample(program, { seed: 7, numRuns: 8 });
/** Every use and every parameter occurs at least once. */
const all = Array.from({ length: parameterCount }, (_, index) => ({
  name: useNames[index % useNames.length] ?? 'a temperature',
  parameter: index,
}));
const none = { inside: [], outside: [], batch: [], frozen: null, microbatches: 1 } as const;
const programs: Program[] = [
  { ...none, inside: all, action: 'nothing', parameter: 0 },
  { ...none, outside: all, batch: batchUseNames, action: 'nothing', parameter: 0 },
  ...actionNames.map((action) => ({ ...none, action, parameter: 2 })),
  ...random,
];

const meshes = [
  { dp: 1, tp: 1 },
  { dp: 3, tp: 1 },
  { dp: 1, tp: 2 },
  { dp: 2, tp: 2 },
];

/** Tests on every mesh that each strategy trains as one rank does, by so many of the programs. */
export function testUsesOutsideForward(programsOfStrategy: number = programs.length): void {
  describe.each(meshes)(
    'a model whose parameters are used outside of its forward pass, on a mesh of dp $dp, tp $tp',
    (mesh) => {
      const size = mesh.dp * mesh.tp;
      const axes = (['dp', 'tp'] as const).map((name) => ({ name, size: mesh[name] }));
      const rows = Object.entries(strategiesFor(mesh)).map((each, row) => [...each, row] as const);

      it.each(rows)('trains as one rank does: %s', async (_, strategy, row) => {
        const chosen = someForRow({ row, rows: rows.length }, programs, programsOfStrategy);
        expect(chosen.length).toBeGreaterThanOrEqual(programsOfStrategy);
        for (const program of chosen) {
          const ranks = await onRanks(size, (rank) => trainBy(program, strategy, rank.mesh), {
            axes,
          });
          expectAsOneRank(ranks, await alone(program), { rtol: 0, atol: 1e-5 });
        }
      });
    },
  );
}
