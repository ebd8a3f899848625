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
import { onRanks, type RankInThread } from '@shardwise/testing/node';
import { checkpoints } from 'shardwise';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { onCpu } from '../../../test/support/on-cpu.ts';
import { someForRow } from '../../../test/support/some-for-row.ts';
import { testMs } from './time-limits.ts';

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

const keyOf = ({ optimizer, variant }: Case): string => `${optimizer}, ${variant}`;

/** The strategy under which a case continues on another number of ranks. */
function otherVariant({ optimizer, variant }: Case): VariantName {
  if (optimizer === '1-bit Adam') return variant;
  const all = names(variants);
  return all[(all.indexOf(variant) + 3) % all.length] ?? variant;
}

type Results = Record<
  string,
  {
    /** The losses of the updates after the checkpoint: without a checkpoint, with it, and with state dicts. */
    uninterrupted: number[];
    resumed: number[];
    remembered: number[];
  }
>;

/**
 * Ranks that save continue from their own checkpoints. Other ranks continue from checkpoints that another strategy
 * saved.
 */
async function observe(
  cases: readonly Case[],
  place: RankInThread,
  directory: string,
  saves: boolean,
): Promise<Results> {
  const { group } = place;
  const found: Results = {};
  for (const each of cases) {
    const folder = `${directory}/${keyOf(each)}`;
    const uninterrupted: number[] = [];
    const remembered: number[] = [];
    if (saves) {
      const first = await begin(each);
      await train(first, 0, before);
      const { model, optimizer } = first;
      await checkpoints.save(folder, { step: before, model, optimizer }, { group });
      const third = await begin(each);
      await third.model.loadStateDict(await model.stateDict());
      await copyStates(optimizer, third.optimizer);
      uninterrupted.push(...(await train(first, before, before + after)));
      remembered.push(...(await train(third, before, before + after)));
    }
    const second = await begin(saves ? each : { ...each, variant: otherVariant(each) });
    const checkpoint = await checkpoints.load(folder);
    await checkpoints.loadModel(checkpoint, second.model);
    await checkpoints.loadOptimizer(checkpoint, second.model, second.optimizer);
    const resumed = await train(second, before, before + after);
    found[keyOf(each)] = { uninterrupted, resumed, remembered };
  }
  return found;

  async function train(
    { model, optimizer, forward, noSync, averages }: Awaited<ReturnType<typeof begin>>,
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

const others = [1, 3];

/** Tests the checkpoints of every optimizer under so many of the strategies. */
export function testOptimizerCheckpoints(
  variantsOfOptimizer: number = names(variants).length,
): void {
  const cases = casesOf(variantsOfOptimizer);

  describe('the checkpoint of an optimizer', () => {
    let directory = '';
    let saved: readonly Results[] = [];
    const loaded = new Map<number, readonly Results[]>();

    beforeAll(async () => {
      directory = await mkdtemp(join(tmpdir(), 'shardwise-optimizers-'));
      saved = await onRanks(2, (place) => observe(cases, place, directory, true), onCpu);
      for (const size of others) {
        loaded.set(
          size,
          await onRanks(size, (place) => observe(cases, place, directory, false), onCpu),
        );
      }
    }, testMs);

    afterAll(() => rm(directory, { recursive: true, force: true }));

    it.each(cases.map(keyOf))('has the next losses come out bit for bit: %s', (key) => {
      for (const rank of saved) {
        expect(rank[key]?.uninterrupted).toHaveLength(5);
        expect(rank[key]?.resumed).toEqual(rank[key]?.uninterrupted);
      }
    });

    it.each(
      cases.filter(({ variant }) => variant !== 'DDP with a ZeroRedundancyOptimizer').map(keyOf),
    )('is not needed where state dicts are kept: %s', (key) => {
      for (const rank of saved) expect(rank[key]?.remembered).toEqual(rank[key]?.uninterrupted);
    });

    const mean = (ranks: readonly Results[], key: string, kind: keyof Results[string]): number[] =>
      Array.from(
        { length: 5 },
        (_, step) =>
          ranks.reduce((sum, rank) => sum + (rank[key]?.[kind][step] ?? NaN), 0) / ranks.length,
      );

    describe.each(others)('of two ranks is gone on from by %i', (size) => {
      it.each(cases.map((each) => [keyOf(each), otherVariant(each), each.optimizer] as const))(
        '%s, under %s',
        (key, _, optimizer) => {
          const expected = mean(saved, key, 'uninterrupted');
          const found = mean(loaded.get(size) ?? [], key, 'resumed');
          found.forEach((loss, step) => {
            const difference = Math.abs(loss - (expected[step] ?? NaN)) / (expected[step] ?? NaN);
            expect(difference, `step ${step}`).toBeLessThan(toleranceOf(optimizer));
          });
        },
      );
    });
  });
}
