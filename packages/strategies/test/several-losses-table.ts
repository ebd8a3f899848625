import {
  allReduce,
  fromData,
  hostPages,
  nn,
  optim,
  type Strategy,
  type Tensor,
} from '@shardwise/core';
import {
  colwiseParallel,
  type CommHook,
  compose,
  dataParallel,
  ddp,
  f16CompressHook,
  fsdp,
  OffloadedOptimizer,
  parallelize,
  rowwiseParallel,
  tensorParallel,
  zero,
  ZeroRedundancyOptimizer,
} from '@shardwise/strategies';
import { onRanks } from '@shardwise/testing/node';
import { describe, it } from 'vitest';
import { stateOf } from '../../../test/support/model-values.ts';
import { someForRow } from '../../../test/support/some-for-row.ts';
import { expectAsOneRank, oncePerKey, type Trained } from './as-one-rank.ts';
import { filled } from './filled.ts';

/** The number of items in the batch of all ranks. 1 to 4 ranks share it evenly. */
const globalBatch = 12;
const settings = { lr: 0.1, momentum: 0.9 };
const stepCount = 2;

interface Variant {
  readonly strategy: () => Strategy;
  /** The size of the axis `tp`. Default: there is only the axis `dp` with all ranks. */
  readonly tensorParallelRanks?: number;
  readonly optimizer?: 'zero-redundancy' | 'offloaded';
  readonly checkpointed?: boolean;
  /**
   * The relative tolerance of losses, and that of parameters. Default: the difference that sums in another order make.
   */
  readonly tolerance?: number;
  /**
   * Whether ranks shard states. Gradients that wait inside noSync are then reduced in the next pass, with the
   * parameters of that pass.
   */
  readonly isSharded?: boolean;
  /** Whether rank 0 has the batch of all ranks. Only rank 0 has losses then. */
  readonly hasMaster?: boolean;
}

const average: CommHook = (bucket) =>
  bucket.split(allReduce(bucket.buffer, bucket.axis, { reduce: 'avg' }));
const styles = { 'trunk.0': colwiseParallel(), 'trunk.1': rowwiseParallel() };

const sharded = (strategy: () => Strategy, others: Partial<Variant> = {}): Variant => ({
  strategy,
  isSharded: true,
  ...others,
});
/** Tensor parallelism on two ranks, beside a strategy that shards the batch. */
const cut = (other?: () => Strategy): Variant => ({
  strategy: () =>
    other === undefined ? tensorParallel(styles) : compose(tensorParallel(styles), other()),
  tensorParallelRanks: 2,
});

const variants: Readonly<Record<string, Variant>> = {
  DDP: { strategy: () => ddp() },
  'DDP in bf16, reduced in f32': {
    strategy: () => ddp({ mixedPrecision: { parameterDtype: 'bf16', reduceDtype: 'f32' } }),
    tolerance: 2e-2,
  },
  'DDP in buckets of one parameter': { strategy: () => ddp({ bucketBytes: 1 }) },
  'DDP with findUnusedParameters': { strategy: () => ddp({ findUnusedParameters: true }) },
  'DDP of a static graph': { strategy: () => ddp({ staticGraph: true }) },
  'DDP that divides before and after the sum': {
    strategy: () => ddp({ gradientPredivideFactor: 2 }),
  },
  'DDP with a communication hook': {
    strategy: () => ddp({ commHook: average, bucketBytes: 128 }),
  },
  'DDP with f16 gradients': { strategy: () => ddp({ commHook: f16CompressHook }), tolerance: 2e-3 },
  'DDP with activation checkpointing': { strategy: () => ddp(), checkpointed: true },
  'DDP with a ZeroRedundancyOptimizer': { strategy: () => ddp(), optimizer: 'zero-redundancy' },
  'DDP with states and gradients in host memory': {
    strategy: () => ddp(),
    optimizer: 'offloaded',
  },
  DataParallel: { strategy: () => dataParallel(), hasMaster: true },
  'ZeRO-1': sharded(() => zero({ stage: 1 })),
  'ZeRO-1 with states and gradients in host memory': sharded(() => zero({ stage: 1 }), {
    optimizer: 'offloaded',
  }),
  'ZeRO-2': sharded(() => zero({ stage: 2 })),
  'ZeRO-2 in buckets of one parameter': sharded(() => zero({ stage: 2, bucketBytes: 1 })),
  'ZeRO-2 with activation checkpointing': sharded(() => zero({ stage: 2 }), { checkpointed: true }),
  'ZeRO-3': sharded(() => zero({ stage: 3 })),
  FSDP: sharded(() => fsdp()),
  'FSDP that keeps parameters until backward': sharded(() => fsdp({ reshardAfterForward: false })),
  'FSDP that reshards everything, without prefetch': sharded(() =>
    fsdp({ reshardAfterForward: true, prefetch: 0 }),
  ),
  'FSDP with activation checkpointing': sharded(() => fsdp(), { checkpointed: true }),
  'FSDP with everything in host memory': sharded(() => fsdp({ pages: hostPages() }), {
    optimizer: 'offloaded',
  }),
  'tensor parallelism': cut(),
  'tensor parallelism with DDP': cut(() => ddp()),
  'tensor parallelism with ZeRO-1': { ...cut(() => zero({ stage: 1 })), isSharded: true },
  'tensor parallelism with FSDP': { ...cut(() => fsdp()), isSharded: true },
};

/** Whether the variant can run in a world of this size. */
function isPossible({ tensorParallelRanks, strategy }: Variant, size: number): boolean {
  if (tensorParallelRanks === undefined) return size < 4;
  const isAlone = strategy().name === 'tensor-parallel';
  return size === (isAlone ? tensorParallelRanks : 2 * tensorParallelRanks);
}

/** The outputs for the losses: of two heads, which share a weight, and of the trunk itself. */
interface Outputs {
  readonly hidden: Tensor;
  readonly left: Tensor;
  readonly right: Tensor;
}

class TwoHeads extends nn.Module {
  readonly trunk = new nn.ModuleList([new nn.Linear(6, 8), new nn.Linear(8, 6)]);
  readonly heads = new nn.ModuleList([
    new nn.Linear(6, 3),
    new nn.Linear(6, 3),
    new nn.Linear(6, 3),
  ]);
  readonly scale = new nn.Parameter(Float32Array.of(1.5), []);

  constructor() {
    super();
    const [first, , third] = this.heads;
    if (first !== undefined && third !== undefined) third.weight = first.weight;
    filled(this);
  }

  /** Shape: x [B, 6] -> hidden [B, 6], left and right [B, 3]. */
  forward(x: Tensor): Outputs {
    const [up, down] = this.trunk;
    const [first, second, third] = this.heads;
    if (up === undefined || down === undefined) throw new RangeError('two layers');
    if (first === undefined || second === undefined || third === undefined) throw new RangeError();
    const hidden = x.add(down.forward(up.forward(x).gelu()));
    const left = first.forward(hidden).mul(this.scale);
    const right = second.forward(hidden).add(third.forward(hidden.tanh()));
    return { hidden, left, right };
  }
}

const lossNames = ['left', 'right', 'trunk'] as const;

/** A backward pass of a step: its loss, whether it is inside noSync, and whether the gradients are read after it. */
interface Pass {
  readonly loss: (typeof lossNames)[number];
  /** Which of two forward passes the loss comes from. */
  readonly batch?: 0 | 1;
  readonly inNoSync?: boolean;
  readonly reads?: boolean;
}

const left: Pass = { loss: 'left' };
const right: Pass = { loss: 'right' };
const trunk: Pass = { loss: 'trunk' };

export const programs: Readonly<Record<string, readonly Pass[]>> = {
  'a loss of each head': [left, right],
  'them in the other order': [right, left],
  'the trunk alone, then the heads': [trunk, left, right],
  'the heads, then the trunk alone': [left, right, trunk],
  'one loss twice': [left, left, right],
  'losses that are read before the next backward pass': [
    { ...left, reads: true },
    { ...right, reads: true },
    { ...left, reads: true },
  ],
  'losses of two batches': [
    left,
    { ...right, batch: 1 },
    { ...left, batch: 1 },
    right,
    { ...trunk, batch: 1 },
  ],
  'one of them inside noSync': [{ ...left, inNoSync: true }, right],
  'one inside noSync that is read': [{ ...left, inNoSync: true, reads: true }, right],
  'all inside noSync but that of the trunk': [
    { ...left, inNoSync: true },
    { ...right, inNoSync: true },
    trunk,
  ],
  'noSync between passes that synchronise': [left, { ...right, inNoSync: true }, trunk],
};

export const randomPrograms: typeof programs = Object.fromEntries(
  Array.from({ length: 20 }, (_, seed) => {
    const program = randomProgram(seed + 1);
    return [`at random (${seed + 1}): ${program.map(nameOf).join(', ')}`, program];
  }),
);

function passesOf(program: string): readonly Pass[] {
  return programs[program] ?? randomPrograms[program] ?? [];
}

/**
 * Whether a strategy can run a program. Each forward pass of DataParallel updates the parameters of all ranks but the
 * first in place, so the results of earlier forward passes have no backward pass any more.
 */
function isPossibleProgram(
  { hasMaster = false, isSharded = false }: Variant,
  program: string,
): boolean {
  const passes = passesOf(program);
  if (isSharded && passes.some(({ inNoSync }) => inNoSync)) return false;
  const readsBetween = passes.some(({ reads }) => reads) && passes.some(({ batch }) => batch === 1);
  return !hasMaster || !readsBetween;
}

/** Draws a program that uses both heads and whose last pass synchronises. */
function randomProgram(seed: number): readonly Pass[] {
  let state = seed * 7919;
  const draw = (below: number): number => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    return Math.floor((state / 2 ** 32) * below);
  };
  const passes = Array.from({ length: 2 + draw(4) }, (): Pass => ({
    loss: lossNames[draw(3)] ?? 'trunk',
    batch: draw(2) === 0 ? 0 : 1,
    inNoSync: draw(3) === 0,
    reads: draw(3) === 0,
  }));
  const missing = [left, right].filter(({ loss }) => passes.every((pass) => pass.loss !== loss));
  return [...passes, ...missing, lossOf(draw(3))];
}

function lossOf(index: number): Pass {
  return { loss: lossNames[index] ?? 'trunk' };
}

function nameOf({ loss, batch = 0, inNoSync = false, reads = false }: Pass): string {
  return [loss, batch === 1 ? 'of batch 1' : '', inNoSync ? 'in noSync' : '', reads ? 'read' : '']
    .filter((text) => text !== '')
    .join(' ');
}

/** Trains on this rank. `size` ranks share the batch. */
async function train(
  variant: Variant,
  passes: readonly Pass[],
  rank: number,
  size: number,
): Promise<Trained> {
  const { strategy, checkpointed = false, hasMaster = false } = variant;
  const model = new TwoHeads();
  const parallel = await parallelize(model, strategy());
  const forward = (x: Tensor): Outputs =>
    checkpointed ? nn.checkpoint(() => parallel.forward(x)) : parallel.forward(x);
  const share = hasMaster ? globalBatch : globalBatch / size;
  return run(model, optimizerOf(model, variant), passes, {
    forward,
    noSync: (body) => parallel.noSync(body),
    first: hasMaster ? 0 : rank * share,
    count: share,
  });
}

function optimizerOf(model: nn.Module, { optimizer }: Variant): Trainer {
  const parameters = model.parameters();
  if (optimizer === 'zero-redundancy') {
    return new ZeroRedundancyOptimizer(parameters, optim.SGD, settings);
  }
  const plain = new optim.SGD(parameters, settings);
  if (optimizer === undefined) return plain;
  return new OffloadedOptimizer(model, plain, {
    states: hostPages(),
    gradients: hostPages(),
    chunkBytes: 128,
  });
}

interface Trainer {
  zeroGrad(): void;
  step(): Promise<unknown>;
}

/** Trains on one rank without a strategy. */
const alone = oncePerKey((program: string) => {
  const model = new TwoHeads();
  return run(model, new optim.SGD(model.parameters(), settings), passesOf(program), {
    forward: (x) => model.forward(x),
    noSync: (body) => body(),
    first: 0,
    count: globalBatch,
  });
});

interface Part {
  readonly forward: (x: Tensor) => Outputs;
  readonly noSync: (body: () => void) => void;
  /** The first item of this rank in the batch of all ranks. */
  readonly first: number;
  readonly count: number;
}

async function run(
  model: nn.Module,
  optimizer: Trainer,
  passes: readonly Pass[],
  { forward, noSync, first, count }: Part,
): Promise<Trained> {
  const losses: number[] = [];
  for (let step = 0; step < stepCount; step++) {
    optimizer.zeroGrad();
    const made = [0, ...(passes.some(({ batch }) => batch === 1) ? [1] : [])].map((batch) => {
      const x = values(step * 2 + batch, first, count, 6);
      const { hidden, left: l, right: r } = forward(x);
      return {
        left: nn.functional.mseLoss(l, values(step + 20, first, count, 3)),
        right: nn.functional.mseLoss(r, values(step + 40, first, count, 3)),
        trunk: hidden.square().mean().mul(0.3),
      };
    });
    const kept = new Set<Tensor>();
    for (const { loss: name, batch = 0, inNoSync = false, reads = false } of passes) {
      const loss = made[batch]?.[name];
      if (loss === undefined) throw new RangeError(name);
      kept.add(loss.retain());
      if (inNoSync) noSync(() => loss.backward());
      else loss.backward();
      if (reads) await loss.item();
    }
    await optimizer.step();
    for (const loss of kept) losses.push(await loss.item());
  }
  return { losses, state: await stateOf(model) };
}

function values(seed: number, first: number, count: number, columns: number): Tensor {
  const data = Float32Array.from({ length: count * columns }, (_, i) =>
    Math.sin(seed * 31 + (first * columns + i) * 1.7),
  );
  return fromData(data, [count, columns], 'f32');
}

/** Tests every strategy in worlds of these sizes with so many of the programs. */
export function severalLossesTable(
  sizes: readonly number[],
  programs: readonly string[],
  programsOfVariant: number = programs.length,
): void {
  describe.each(sizes)('on %i ranks', (size) => {
    const possible = Object.entries(variants).filter(([, variant]) => isPossible(variant, size));

    describe.each(possible.map((each, row) => [...each, row] as const))('%s', (_, options, row) => {
      const { hasMaster = false, tolerance = 2e-5, tensorParallelRanks: tp = 1 } = options;
      const axes = [
        { name: 'dp', size: size / tp },
        { name: 'tp', size: tp },
      ].slice(0, tp === 1 ? 1 : 2);

      const all = programs.filter((program) => isPossibleProgram(options, program));
      it.each(someForRow({ row, rows: possible.length }, all, programsOfVariant))(
        'trains as one rank does: %s',
        async (program) => {
          const trained = await onRanks(
            size,
            ({ mesh }) => train(options, passesOf(program), mesh.coordinate('dp'), size / tp),
            { axes },
          );
          const ranks = hasMaster ? trained.slice(0, 1) : trained;
          const near = { rtol: tolerance, atol: 0 };
          expectAsOneRank(ranks, await alone(program), near, { rtol: 0, atol: tolerance });
        },
      );
    });
  });
}
