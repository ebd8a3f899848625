import { nn, type Strategy, Tensor } from '@shardwise/core';
import type { Gate, MeshAxis } from '@shardwise/core/extend';
import {
  colwiseParallel,
  compose,
  ddp,
  expertParallel,
  type ExpertParallelOptions,
  fsdp,
  pipeline,
  rowwiseParallel,
  tensorParallel,
  zero,
} from '@shardwise/strategies';

/** Numbers from 0 to 1 that are the same in each run (mulberry32). */
function numbers(seed: number): () => number {
  let state = seed * 7919 + 1;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}

interface Shape {
  readonly inputs: number;
  readonly widths: readonly number[];
  readonly classes: number;
  readonly activation: 'relu' | 'gelu' | 'tanh' | 'silu';
  readonly norm: 'none' | 'layer' | 'rms' | 'sync batch';
  readonly dropout: number;
  readonly tied: boolean;
  readonly experts: ExpertsShape | null;
  /** The axes whose ranks have other rows of the batch. */
  readonly dataAxes: readonly string[];
}

/** A layer of four experts after the hidden layers. */
interface ExpertsShape {
  readonly gate: GateKind;
  readonly balance: 'none' | 'of a rank' | 'of all ranks';
  readonly zLoss: number;
  readonly bias: boolean;
  readonly shared: boolean;
}

const gates = {
  'two of four': () => nn.topKGate({ k: 2, normalize: 'chosen' }),
  'sigmoid scores': () => nn.topKGate({ k: 2, scores: 'sigmoid', normalize: 'chosen' }),
  'the first tokens stay': () => nn.topKGate({ k: 2, capacity: { factor: 0.6 } }),
  'the best tokens stay': () =>
    nn.topKGate({ k: 2, normalize: 'kept', capacity: { factor: 0.7, drop: 'probs' } }),
  'any tokens stay': () => nn.topKGate({ k: 2, capacity: { factor: 0.6, drop: 'random' } }),
  'switch with jitter': () => nn.switchGate({ capacity: { factor: 0.8 }, jitter: 0.1 }),
  gshard: () => nn.gshardGate({ capacity: { factor: 0.7 } }),
  'experts choose': () => nn.expertChoiceGate({ factor: 1 }),
} satisfies Record<string, () => Gate>;

type GateKind = keyof typeof gates;

const gateKinds: readonly GateKind[] = [
  'two of four',
  'sigmoid scores',
  'the first tokens stay',
  'the best tokens stay',
  'any tokens stay',
  'switch with jitter',
  'gshard',
  'experts choose',
];

/** Whether a gate drops routes of tokens. */
export function drops(gate: GateKind): boolean {
  return !['two of four', 'sigmoid scores'].includes(gate);
}

/** A chain of layers, of which the last may have experts. The hidden ones have one width if their weight is shared. */
export class Chain extends nn.Module {
  readonly first: nn.Linear;
  readonly layers: nn.ModuleList<nn.Linear>;
  readonly norms: nn.ModuleList<nn.LayerNorm | nn.RMSNorm | nn.SyncBatchNorm>;
  readonly drop: nn.Dropout;
  readonly experts: nn.MixtureOfExperts | null;
  readonly head: nn.Linear;
  readonly #activation: Shape['activation'];

  constructor({
    inputs,
    widths,
    classes,
    activation,
    norm,
    dropout,
    tied,
    experts,
    dataAxes,
  }: Shape) {
    super();
    const [width = 4, ...others] = widths;
    this.first = new nn.Linear(inputs, width);
    const sizes = [width, ...others];
    this.layers = new nn.ModuleList(
      others.map((size, index) => new nn.Linear(sizes[index] ?? width, size)),
    );
    if (tied)
      for (const layer of this.layers) layer.weight = this.layers.at(0)?.weight ?? layer.weight;
    const normOf = (size: number): nn.LayerNorm | nn.RMSNorm | nn.SyncBatchNorm => {
      if (norm === 'rms') return new nn.RMSNorm(size);
      return norm === 'layer' ? new nn.LayerNorm(size) : new nn.SyncBatchNorm(size);
    };
    this.norms = new nn.ModuleList(norm === 'none' ? [] : others.map(normOf));
    this.drop = new nn.Dropout(dropout);
    const last = sizes.at(-1) ?? width;
    this.experts = experts === null ? null : expertsOf(last, dataAxes, experts);
    this.head = new nn.Linear(last, classes);
    this.#activation = activation;
  }

  /** Shape: x [B, C] -> [B, K]. */
  forward(x: Tensor): Tensor {
    const act = (value: Tensor): Tensor => value[this.#activation]();
    let h = act(this.first.forward(x));
    for (const [index, layer] of [...this.layers].entries()) {
      h = act(layer.forward(h));
      h = this.norms.at(index)?.forward(h) ?? h;
      h = this.drop.forward(h);
    }
    if (this.experts !== null) h = h.add(this.experts.forward(h));
    return this.head.forward(h);
  }
}

function expertsOf(
  features: number,
  axes: readonly string[],
  { gate, balance, zLoss, bias, shared }: ExpertsShape,
): nn.MixtureOfExperts {
  return new nn.MixtureOfExperts(features, 6, 4, {
    gate: gates[gate](),
    zLoss,
    ...(balance === 'none' ? {} : { balance: { kind: 'megatron', coefficient: 0.1 } }),
    ...(balance === 'of all ranks' ? { axes } : {}),
    ...(bias ? { bias: { rate: 1e-2 } } : {}),
    ...(shared ? { shared: new nn.Linear(features, features) } : {}),
  });
}

/** A right program. */
export interface Program {
  readonly axes: readonly MeshAxis[];
  readonly strategy: Strategy;
  readonly strategyName: string;
  /** Whether the strategy's passes take the targets. */
  readonly hasLoss: boolean;
  readonly shape: Shape;
  readonly optimizer: 'SGD' | 'Adam' | 'AdamW';
  readonly accumulates: number;
  readonly losses: 'mean' | 'two' | 'counted';
  /** Whether the first row has no label. */
  readonly ignores: boolean;
  readonly steps: number;
}

/** The number of rows of a microbatch that have a label. */
function labelsOf(...[, y]: readonly unknown[]): Tensor {
  if (!(y instanceof Tensor)) throw new TypeError('no labels');
  return y.ne(-100).to('f32').sum();
}

const kinds = [
  'batch',
  'stages',
  'layers',
  'experts',
  'batch',
  'stages',
  'batch',
  'experts',
  'layers',
  'batch',
] as const;

/** Leaves out what these experts cannot be given together. */
function soundExperts(shape: ExpertsShape, isShared: boolean): ExpertsShape {
  const { gate, balance } = shape;
  if (isShared) return { ...shape, balance: 'none', bias: false };
  if (gate === 'experts choose') return { ...shape, balance: 'none' };
  const jitters = gate === 'switch with jitter' && balance === 'of all ranks';
  return jitters ? { ...shape, gate: 'gshard' } : shape;
}

/** Draws a program. Of ten seeds, four divide the batch, two layers, two the model into stages, and two experts. */
export function drawProgram(seed: number, ranks: number): Program {
  const random = numbers(seed);
  const pick = <T>(...list: readonly T[]): T => {
    const chosen = list[Math.floor(random() * list.length)];
    if (chosen === undefined) throw new RangeError();
    return chosen;
  };
  const size = (): number => 3 + Math.floor(random() * 9);
  const depth = 1 + Math.floor(random() * 3);
  const tied = random() < 0.2;
  const width = size();
  const widths = [width, ...Array.from({ length: depth }, () => (tied ? width : size()))];
  const classes = size();
  const line = [{ name: 'dp', size: ranks }];
  const grid = (name: string): readonly MeshAxis[] => [
    { name: 'dp', size: ranks / 2 },
    { name, size: 2 },
  ];
  const loss = (output: Tensor, y: Tensor): Tensor => nn.functional.crossEntropy(output, y);
  const styles = { first: colwiseParallel(), 'layers.0': rowwiseParallel() };
  const batches: readonly (readonly [string, () => Strategy])[] = [
    ['ddp', () => ddp()],
    ['ddp of small buckets', () => ddp({ bucketBytes: 64 })],
    ['ddp in bf16', () => ddp({ mixedPrecision: { computeDtype: 'bf16' } })],
    ['ZeRO-1', () => zero({ stage: 1 })],
    ['ZeRO-2', () => zero({ stage: 2 })],
    ['ZeRO-3', () => zero({ stage: 3 })],
    ['FSDP', () => fsdp()],
    ['FSDP that keeps parameters', () => fsdp({ reshardAfterForward: false })],
  ];
  const kind = kinds[seed % kinds.length] ?? 'batch';
  const [name, build] = pick(...batches);
  const schedule = pick('gpipe' as const, '1f1b' as const);
  const weighs = random() < 0.3;
  const staged = (): Strategy =>
    pipeline({
      axis: 'pp',
      schedule,
      microbatches: 2,
      loss,
      cut: ['layers.0'],
      ...(weighs ? { weight: labelsOf } : {}),
    });
  const experts = (options: ExpertParallelOptions = {}): Strategy =>
    expertParallel({ k: gates[sound.gate]().k ?? 2, tokens: 8, ...options });
  const gate = pick(...gateKinds);
  const ep = { name: 'ep', size: 2 };
  const ofExperts = [
    { axes: line, strategyName: `${name} of experts`, strategy: build },
    {
      axes: [{ name: 'ep', size: ranks }],
      strategyName: 'expert parallelism',
      strategy: () => experts(),
    },
    {
      axes: grid('ep'),
      strategyName: `expert parallelism × ${name}`,
      strategy: () => compose(experts(), build()),
    },
    {
      axes: [{ name: 'tp', size: 2 }, ep],
      strategyName: 'expert parallelism of the same tokens',
      strategy: () =>
        compose(tensorParallel(styles), experts({ axis: ['tp', 'ep'], sameTokens: ['tp'] })),
    },
    {
      axes: [ep, { name: 'pp', size: 2 }],
      strategyName: 'expert parallelism × stages',
      strategy: () => compose(experts(), staged()),
    },
  ] as const;
  // Two ranks have no grid.
  const chosen = pick(...(ranks === 2 ? ofExperts.slice(0, 2) : ofExperts));
  const isStaged = kind === 'stages' || chosen.strategyName.endsWith('stages');
  const of = {
    batch: { axes: line, strategyName: name, strategy: build, hasLoss: false },
    layers: {
      axes: ranks === 2 ? [{ name: 'tp', size: 2 }] : grid('tp'),
      strategyName: `tensor parallelism${ranks === 2 ? '' : ` × ${name}`}`,
      strategy: () =>
        ranks === 2 ? tensorParallel(styles) : compose(tensorParallel(styles), build()),
      hasLoss: false,
    },
    stages: {
      axes: ranks === 2 ? [{ name: 'pp', size: 2 }] : grid('pp'),
      strategyName: `stages${ranks === 2 ? '' : ' × ddp'}`,
      strategy: () => (ranks === 2 ? staged() : compose(staged(), ddp())),
      hasLoss: true,
    },
    experts: { ...chosen, hasLoss: isStaged },
  }[kind];
  const isBatch = kind === 'batch';
  const isShared = of.strategyName.endsWith('same tokens');
  const drawnLosses = of.hasLoss
    ? 'mean'
    : pick('mean' as const, 'two' as const, 'counted' as const);
  // Ranks of the same tokens divide them evenly.
  const losses = isShared && drawnLosses === 'counted' ? 'mean' : drawnLosses;
  // Ranks average their losses alike. So only losses of the rows themselves are right for batches of other sizes.
  const balances = !of.hasLoss && losses !== 'counted';
  const drawn: ExpertsShape = {
    gate: isShared && drops(gate) ? 'two of four' : gate,
    balance: balances ? pick('none', 'of a rank', 'of all ranks') : 'none',
    zLoss: balances ? pick(0, 0.01) : 0,
    bias: random() < 0.3 && !of.hasLoss && gate !== 'experts choose',
    shared: random() < 0.3,
  };
  const sound = soundExperts(drawn, isShared);
  return {
    ...of,
    strategy: of.strategy(),
    shape: {
      inputs: size(),
      widths: kind === 'batch' ? widths : widths.map((each) => each * 2),
      classes,
      activation: pick('relu', 'gelu', 'tanh', 'silu'),
      norm: isBatch ? pick('none', 'layer', 'rms', 'sync batch') : pick('none', 'layer'),
      dropout: pick(0, 0, 0.3),
      tied: tied && isBatch,
      experts: kind === 'experts' ? sound : null,
      dataAxes: of.axes.flatMap((axis) => (['dp', 'ep'].includes(axis.name) ? [axis.name] : [])),
    },
    optimizer: pick('SGD', 'Adam', 'AdamW'),
    accumulates: pick(1, 1, 2),
    losses,
    ignores: of.hasLoss && weighs,
    steps: pick(2, 3),
  };
}
