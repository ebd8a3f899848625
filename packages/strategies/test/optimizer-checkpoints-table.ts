import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import {
  fromData,
  hostPages,
  manualSeed,
  nn,
  optim,
  type Strategy,
  type Tensor,
} from '@shardwise/core';
import {
  ddp,
  fsdp,
  OffloadedOptimizer,
  type OptimizerClass,
  parallelize,
  zero,
  ZeroRedundancyOptimizer,
} from '@shardwise/strategies';
import { assertAllclose } from '@shardwise/testing';
import { onRanks, type RankInThread } from '@shardwise/testing/node';
import { checkpoints } from 'shardwise';
import { expect, it, onTestFinished } from 'vitest';
import { onCpu } from '../../../test/support/on-cpu.ts';
import { someForRow } from '../../../test/support/some-for-row.ts';
import { meanOverRanks } from './as-one-rank.ts';

/** The numbers of updates before and after the checkpoint. */
const [before, after] = [4, 5];
/** The number of items in the batch of all ranks. */
const globalBatch = 12;

/** AdamW8bit with blocks that the parts of parameters cut. */
class Small8bit extends optim.AdamW8bit {
  constructor(
    params: optim.OptimizerInput<optim.AdamMomentSettings>,
    settings: Partial<optim.AdamMomentSettings> = {},
  ) {
    super(params, settings, { minElements: 20 });
  }
}

/** Muon that leaves vectors unchanged. */
class MatricesByMuon extends optim.Muon {
  constructor(
    params: optim.OptimizerInput<optim.MuonSettings>,
    settings: Partial<optim.MuonSettings> = {},
  ) {
    const tensors = [...params].filter((each) => 'shape' in each);
    super(
      tensors.filter(({ shape }) => shape.length === 2),
      settings,
    );
  }
}

type Made<Settings extends optim.OptimizerSettings> =
  | optim.Optimizer<Settings>
  | OffloadedOptimizer<optim.Optimizer<Settings>>
  | ZeroRedundancyOptimizer<Settings>;
type Keeps = 'offloaded' | 'sharded' | 'itself';

const made =
  <Settings extends optim.OptimizerSettings>(
    kind: OptimizerClass<Settings>,
    settings: Partial<Settings>,
  ) =>
  (model: nn.Module, keeps: Keeps): Made<Settings> => {
    if (keeps === 'sharded') {
      return new ZeroRedundancyOptimizer(model.parameters(), kind, settings);
    }
    const optimizer = new kind(model.parameters(), settings);
    if (keeps === 'itself') return optimizer;
    return new OffloadedOptimizer(model, optimizer, { states: hostPages(), chunkBytes: 64 });
  };

const optimizers = {
  'SGD without momentum': made(optim.SGD, { lr: 0.1 }),
  SGD: made(optim.SGD, { lr: 0.1, momentum: 0.9, nesterov: true }),
  Adam: made(optim.Adam, { lr: 0.01 }),
  AdamW: made(optim.AdamW, { lr: 0.01 }),
  'AdamW with amsgrad': made(optim.AdamW, { lr: 0.01, betas: [0.9, 0.5], amsgrad: true }),
  LAMB: made(optim.Lamb, { lr: 0.01 }),
  RMSprop: made(optim.RMSprop, { lr: 0.01, momentum: 0.9, centered: true }),
  Adagrad: made(optim.Adagrad, { lr: 0.05, initialAccumulatorValue: 0.1 }),
  Adafactor: made(optim.Adafactor, { lr: 0.05 }),
  Lion: made(optim.Lion, { lr: 0.003 }),
  Muon: made(MatricesByMuon, { lr: 0.02 }),
  AdamW8bit: made(Small8bit, { lr: 0.01 }),
  '1-bit Adam': made(optim.OneBitAdam, { lr: 0.01, freezeStep: 2 }),
} as const;
type OptimizerName = keyof typeof optimizers;

interface Variant {
  readonly strategy: () => Strategy;
  readonly keeps?: Keeps;
}

const variants = {
  DDP: { strategy: () => ddp() },
  'DDP with a ZeroRedundancyOptimizer': { strategy: () => ddp(), keeps: 'sharded' },
  'ZeRO-1': { strategy: () => zero({ stage: 1 }) },
  'ZeRO-2': { strategy: () => zero({ stage: 2 }) },
  'ZeRO-3': { strategy: () => zero({ stage: 3 }) },
  FSDP: { strategy: () => fsdp() },
  'FSDP, offloaded': { strategy: () => fsdp(), keeps: 'offloaded' },
} as const satisfies Record<string, Variant>;
type VariantName = keyof typeof variants;

/** An optimizer under a strategy. */
interface Case {
  readonly optimizer: OptimizerName;
  readonly variant: VariantName;
}

const names = <T extends object>(table: T): (keyof T)[] =>
  Object.keys(table).filter((key): key is string & keyof T => Object.hasOwn(table, key));

/** Every optimizer under so many of the strategies. */
function casesOf(variantsOfOptimizer: number): readonly Case[] {
  const rows = names(optimizers).length;
  return names(optimizers).flatMap((optimizer, row) => {
    const possible: readonly VariantName[] = optimizer === '1-bit Adam' ? ['DDP'] : names(variants);
    const chosen = someForRow({ row, rows }, possible, variantsOfOptimizer);
    return chosen.map((variant) => ({ optimizer, variant }));
  });
}

/** The strategy under which a case continues on another number of ranks. */
function otherVariant({ optimizer, variant }: Case): VariantName {
  if (optimizer === '1-bit Adam') return variant;
  const all = names(variants);
  return all[(all.indexOf(variant) + 3) % all.length] ?? variant;
}

type Begun = Awaited<ReturnType<typeof begin>>;

async function train(
  { model, optimizer, forward, noSync, averages }: Begun,
  place: RankInThread,
  start: number,
  stop: number,
): Promise<number[]> {
  const losses: number[] = [];
  for (let step = start; step < stop; step++) {
    model.zeroGrad();
    const pass = (): Tensor => {
      const { x, y } = batchOf(step, place);
      const loss = nn.functional.mseLoss(forward(x), y);
      loss.backward();
      return loss;
    };
    const loss = averages ? noSync(pass) : pass();
    await optimizer.step();
    losses.push(await loss.item());
  }
  return losses;
}

/** Goes on from a checkpoint. Returns the losses of the updates after it. */
async function resume(each: Case, place: RankInThread, folder: string): Promise<number[]> {
  const begun = await begin(each);
  const checkpoint = await checkpoints.load(folder);
  await checkpoints.loadModel(checkpoint, begun.model);
  await checkpoints.loadOptimizer(checkpoint, begun.model, begun.optimizer);
  return train(begun, place, before, before + after);
}

interface HasStateDict {
  stateDict(): Promise<unknown>;
  loadStateDict(dict: unknown): void;
}

/** Copies the state dict, if the optimizer has one on every rank. */
async function copyStates(from: object, to: object): Promise<void> {
  const [source, target] = [from, to].map((each): HasStateDict | null => {
    const inner = each instanceof OffloadedOptimizer ? each.optimizer : each;
    return inner instanceof optim.Optimizer ? inner : null;
  });
  if (source !== null) target?.loadStateDict(await source?.stateDict());
}

async function begin({ optimizer: name, variant }: Case) {
  manualSeed(0);
  const model = new nn.Sequential(new nn.Linear(9, 40), new nn.Tanh(), new nn.Linear(40, 7));
  const { strategy, keeps = 'itself' }: Variant = variants[variant];
  const parallel = await parallelize(model, strategy());
  return {
    model,
    optimizer: optimizers[name](model, keeps),
    forward: (x: Tensor) => parallel.forward(x),
    noSync: <T>(body: () => T): T => parallel.noSync(body),
    averages: name === '1-bit Adam',
  };
}

function batchOf(
  step: number,
  { rank, size }: { readonly rank: number; readonly size: number },
): { readonly x: Tensor; readonly y: Tensor } {
  const share = globalBatch / size;
  const items = (columns: number, seed: number): Tensor => {
    const values = Float32Array.from({ length: share * columns }, (_, i) =>
      Math.sin(seed + step * 7 + (rank * share * columns + i) * 1.3),
    );
    return fromData(values, [share, columns], 'f32');
  };
  return { x: items(9, 1), y: items(7, 2) };
}

/** The relative tolerance. 8-bit states and 1-bit messages depend on how the ranks cut parameters. */
function toleranceOf(optimizer: string): number {
  if (optimizer === 'AdamW8bit') return 2e-2;
  return optimizer === '1-bit Adam' ? 0.2 : 1e-5;
}

/** Tests the checkpoints of every optimizer under so many of the strategies. */
export function testOptimizerCheckpoints(
  variantsOfOptimizer: number = names(variants).length,
): void {
  it.each(casesOf(variantsOfOptimizer))(
    'the checkpoint of $optimizer, $variant, has the next losses come out bit for bit, is not needed where state dicts are kept, and is gone on from by other ranks under another strategy',
    async (each) => {
      const folder = await mkdtemp(join(tmpdir(), 'shardwise-optimizers-'));
      onTestFinished(() => rm(folder, { recursive: true, force: true }));
      const uninterrupted = await onRanks(
        2,
        async (place) => {
          const first = await begin(each);
          await train(first, place, 0, before);
          const { model, optimizer } = first;
          const { group } = place;
          await checkpoints.save(folder, { step: before, model, optimizer }, { group });
          const other = await begin(each);
          await other.model.loadStateDict(await model.stateDict());
          await copyStates(optimizer, other.optimizer);
          const expected = await train(first, place, before, before + after);
          expect(expected).toHaveLength(after);
          expect(await resume(each, place, folder)).toEqual(expected);
          if (each.variant !== 'DDP with a ZeroRedundancyOptimizer') {
            expect(await train(other, place, before, before + after)).toEqual(expected);
          }
          return expected;
        },
        onCpu,
      );
      const other = { ...each, variant: otherVariant(each) };
      for (const size of [1, 3]) {
        const ranks = await onRanks(size, (place) => resume(other, place, folder), onCpu);
        const tolerance = { rtol: toleranceOf(each.optimizer), atol: 0 };
        assertAllclose(meanOverRanks(ranks), meanOverRanks(uninterrupted), tolerance);
      }
    },
  );
}
