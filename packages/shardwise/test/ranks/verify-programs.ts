import { fromData, nn, optim, setRank, type Strategy, Tensor } from '@shardwise/core';
import { allReduce, type Model, type Optimizer, type Parameter } from '@shardwise/core/extend';
import { currentSession, type MeshAxis } from '@shardwise/core/extend';
import { createMesh } from '@shardwise/collectives';
import {
  colwiseParallel,
  compose,
  ddp,
  fsdp,
  pipeline,
  rowwiseParallel,
  tensorParallel,
  zero,
} from '@shardwise/strategies';
import type { RankContext } from '@shardwise/testing/ranks';
import { z } from 'zod';
import { join } from '../../../../test/ranks/join.ts';
import { verify, type VerifiedRun } from '../../src/verify/verify.ts';

/** The programs that a test has verified. */
export const drawnPrograms = z.array(
  z.object({
    seed: z.number(),
    program: z.string(),
    verification: z.object({
      finding: z.record(z.string(), z.unknown()).nullable(),
      compared: z.number(),
      notCompared: z.array(z.string()),
    }),
  }),
);

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
}

/** A chain of layers. The hidden ones have one width if their weight is shared. */
class Chain extends nn.Module {
  readonly first: nn.Linear;
  readonly layers: nn.ModuleList<nn.Linear>;
  readonly norms: nn.ModuleList<nn.LayerNorm | nn.RMSNorm | nn.SyncBatchNorm>;
  readonly drop: nn.Dropout;
  readonly head: nn.Linear;
  readonly #activation: Shape['activation'];

  constructor({ inputs, widths, classes, activation, norm, dropout, tied }: Shape) {
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
    this.head = new nn.Linear(sizes.at(-1) ?? width, classes);
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
    return this.head.forward(h);
  }
}

type Run = VerifiedRun<Chain, [Tensor], Tensor>;

interface Program {
  readonly axes: readonly MeshAxis[];
  readonly strategy: Strategy;
  readonly strategyName: string;
  /** Whether the strategy's passes take the targets. */
  readonly hasLoss: boolean;
  readonly shape: Shape;
  readonly optimizer: 'SGD' | 'Adam' | 'AdamW';
  readonly accumulates: number;
  readonly losses: 'mean' | 'two' | 'counted';
  readonly steps: number;
}

function drawProgram(seed: number, ranks: number): Program {
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
  const kind = pick('batch', 'batch', 'batch', 'layers', 'stages');
  const [name, build] = pick(...batches);
  const schedule = pick('gpipe' as const, '1f1b' as const);
  const cut = { cut: ['layers.0'] };
  const staged = (): Strategy => pipeline({ axis: 'pp', schedule, microbatches: 2, loss, ...cut });
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
  }[kind];
  const isBatch = kind === 'batch';
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
    },
    optimizer: pick('SGD', 'Adam', 'AdamW'),
    accumulates: pick(1, 1, 2),
    losses: of.hasLoss ? 'mean' : pick('mean', 'two', 'counted'),
    steps: pick(2, 3),
  };
}

/** The rows of a part of the batch. If they are uneven, later parts have more. */
function batchOf(
  { shape, losses }: Program,
  at: number,
  part: number,
): { x: Tensor; y: Tensor; rows: number } {
  const rows = losses === 'counted' ? 3 + part : 4;
  const value = (row: number, column: number): number =>
    Math.sin(row * 7.1 + column * 3.3 + at * 1.7 + part * 11.9);
  const x = Array.from({ length: rows * shape.inputs }, (_, index) =>
    value(Math.floor(index / shape.inputs), index % shape.inputs),
  );
  const y = Array.from({ length: rows }, (_, row) => (row * 5 + at + part) % shape.classes);
  return {
    rows,
    x: fromData(Float32Array.from(x), [rows, shape.inputs], 'f32'),
    y: fromData(Int32Array.from(y), [rows], 'i32'),
  };
}

function stepOf(program: Program): (run: Run) => Promise<void> {
  const { losses, accumulates } = program;
  return async (run) => {
    const axis = run.mesh.axes.find(({ name }) => name === 'dp');
    const part = axis === undefined ? 0 : run.mesh.coordinate('dp');
    run.optimizer.zeroGrad();
    for (let index = 0; index < accumulates; index++) {
      const { x, y, rows } = batchOf(program, run.step * 10 + index, part);
      const pass = (): void => {
        if (program.hasLoss) {
          const { model }: { model: Model<readonly unknown[], unknown> } = run;
          const loss = model.forward(x, y);
          if (!(loss instanceof Tensor)) throw new TypeError();
          loss.div(accumulates).backward();
          return;
        }
        const output = run.model.forward(x);
        if (losses === 'counted' && axis !== undefined) {
          // The mean over all rows: the ranks' sums, over the number of rows of all of them.
          const own = fromData(Float32Array.of(rows), [], 'f32');
          const all = allReduce(own, 'dp');
          const sum = nn.functional.crossEntropy(output, y, { reduction: 'sum' });
          sum.mul(axis.size).div(all).div(accumulates).backward();
          return;
        }
        nn.functional.crossEntropy(output, y).div(accumulates).backward();
        if (losses === 'two') output.square().mean().mul(0.1).backward();
      };
      if (index < accumulates - 1) run.model.noSync(pass);
      else pass();
    }
    await run.optimizer.step();
  };
}

const optimizers: Record<Program['optimizer'], (parameters: readonly Parameter[]) => Optimizer> = {
  SGD: (parameters) => new optim.SGD([...parameters], { lr: 0.1, momentum: 0.9 }),
  Adam: (parameters) => new optim.Adam([...parameters], { lr: 1e-2 }),
  AdamW: (parameters) => new optim.AdamW([...parameters], { lr: 1e-2 }),
};

/** Verifies the programs of these seeds. */
export async function main(context: RankContext): Promise<z.infer<typeof drawnPrograms>> {
  const { group } = await join(context);
  const { backend: device } = currentSession();
  const seeds = z.array(z.number()).parse(context.data);
  const found: z.infer<typeof drawnPrograms> = [];
  for (const seed of seeds) {
    const program = drawProgram(seed, group.size);
    setRank({ device, mesh: await createMesh(group, program.axes) });
    const { steps } = program;
    const build = (): Chain & Model<[Tensor], Tensor> => new Chain(program.shape);
    const text = JSON.stringify({ ...program, strategy: undefined });
    try {
      const verification = await verify<Chain, [Tensor], Tensor>(
        build,
        stepOf(program),
        program.strategy,
        { steps, optimizer: optimizers[program.optimizer], seed },
      );
      found.push({
        seed,
        program: text,
        verification: {
          ...verification,
          finding: verification.finding && { ...verification.finding },
          notCompared: [...verification.notCompared],
        },
      });
    } catch (cause) {
      throw new Error(`program ${seed}: ${text}: ${String(cause)}`, { cause });
    }
  }
  return found;
}
