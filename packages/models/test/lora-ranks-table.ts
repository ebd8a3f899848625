import { allReduce, manualSeed, noGrad, optim, type Strategy, type Tensor } from '@shardwise/core';
import { elementCount, type HostArray, isHeldAt, ownPlace } from '@shardwise/core/extend';
import {
  adapterFiles,
  addLora,
  loadAdapter,
  type LoraOptions,
  mergeLora,
  quantizeModel,
  unmergeLora,
} from '@shardwise/models';
import {
  colwiseParallel,
  compose,
  ddp,
  fsdp,
  memory,
  parallelize,
  pipeline,
  rowwiseParallel,
  type StrategyWithLoss,
  tensorParallel,
  zero,
} from '@shardwise/strategies';
import { onRanks } from '@shardwise/testing/node';
import { beforeAll, describe, expect, it } from 'vitest';
import { onCpu } from '../../../test/support/on-cpu.ts';
import { someForRow } from '../../../test/support/some-for-row.ts';
import {
  type LanguageBatch,
  languageBatch,
  languageLoss,
  SmallLanguage,
} from './small-language.ts';

const steps = 3;
const rows = 8;

const byLayer = tensorParallel({
  'layers.*.up_proj': colwiseParallel(),
  'layers.*.down_proj': rowwiseParallel(),
});
const inStages = pipeline({ cut: ['layers.2'], microbatches: 2, loss: languageLoss });

/** Makes the model parallel. Returns its loss as a function of a batch. */
type Parallelize = (model: SmallLanguage) => Promise<LossOf>;
type LossOf = (batch: LanguageBatch) => Tensor;

interface Case {
  readonly axes: readonly string[];
  readonly parallelize: Parallelize;
}

function over(axes: readonly string[], strategy: () => Strategy): Case {
  return {
    axes,
    parallelize: async (model) => {
      const parallel = await parallelize(model, strategy());
      return ({ ids, targets }) => languageLoss(parallel.forward(ids), targets);
    },
  };
}

function withStages(
  axes: readonly string[],
  strategy: () => StrategyWithLoss<Tensor, [targets: Tensor]>,
): Case {
  return {
    axes,
    parallelize: async (model) => {
      const parallel = await parallelize(model, strategy());
      return ({ ids, targets }) => parallel.forward(ids, targets);
    },
  };
}

const cases: Readonly<Record<string, Case>> = {
  DDP: over(['dp'], () => ddp()),
  'ZeRO-1': over(['dp'], () => zero({ stage: 1 })),
  'ZeRO-2': over(['dp'], () => zero({ stage: 2 })),
  'ZeRO-3': over(['dp'], () => zero({ stage: 3 })),
  FSDP: over(['dp'], () => fsdp()),
  'tensor parallelism': over(['tp'], () => byLayer),
  'a pipeline': withStages(['pp'], () => inStages),
  'tensor parallelism beside FSDP': over(['dp', 'tp'], () => compose(byLayer, fsdp())),
  'a pipeline beside FSDP': withStages(['pp', 'dp'], () => compose(inStages, fsdp())),
};

const adapters: Readonly<Record<string, Partial<LoraOptions>>> = {
  LoRA: {},
  DoRA: { useDora: true, useRslora: true },
};

type Dtype = 'f32' | 'bf16' | 'nf4';

interface Outcome {
  losses: number[];
  /** The loss after mergeLora, and the one after unmergeLora. */
  mergedLoss: number;
  unmergedLoss: number;
  /** The loss after B was set to zero, and the one after the adapter was loaded from what was saved before. */
  forgottenLoss: number;
  loadedLoss: number;
  /** The trained parameters, whole. */
  trained: Record<string, number[]>;
  /** The names of parameters that are frozen and have changed. */
  changed: string[];
  gradientBytes: number;
  optimizerBytes: number;
  /** The bytes of the parts of trained parameters that this rank has. */
  trainedBytes: number;
}

interface Training {
  /** Default: one rank trains the model itself. */
  readonly parallelize?: Parallelize | undefined;
  readonly options: Partial<LoraOptions>;
  /** The dtype of the frozen weights. */
  readonly dtype: Dtype;
  readonly shares: number;
  readonly place: number;
}

/** Trains the adapters of a small model for a few steps. */
async function train(training: Training): Promise<Outcome> {
  const { options, dtype, shares, place } = training;
  manualSeed(7);
  // Rows of 64 and 128 elements are whole blocks.
  const model =
    dtype === 'nf4' ? new SmallLanguage({ width: 64, hidden: 128 }) : new SmallLanguage();
  if (dtype === 'bf16') await model.to('bf16');
  if (dtype === 'nf4') await quantizeModel(model, { targetModules: ['up_proj', 'down_proj'] });
  addLora(model, { rank: 2, alpha: 6, targetModules: ['up_proj', 'down_proj'], ...options });
  const before = await model.stateDict();
  const lossOf = (await training.parallelize?.(model)) ?? lossAlone(model);
  const optimizer = new optim.SGD(model.parameters(), { lr: 0.05, momentum: 0.9 });
  const own = rows / shares;
  const batchOf = (step: number): LanguageBatch =>
    languageBatch(step, place * own, (place + 1) * own);
  const losses: number[] = [];
  for (let step = 0; step < steps; step++) {
    optimizer.zeroGrad();
    const loss = lossOf(batchOf(step));
    loss.backward();
    await optimizer.step();
    losses.push(await meanOf(loss, shares).item());
  }
  const { gradientBytes, optimizerBytes } = memory({ model, optimizer });
  const evaluate = (): Promise<number> =>
    meanOf(
      noGrad(() => lossOf(batchOf(steps))),
      shares,
    ).item();
  losses.push(await evaluate());
  const canMerge = dtype !== 'nf4';
  if (canMerge) await mergeLora(model);
  const mergedLoss = await evaluate();
  if (canMerge) await unmergeLora(model);
  const unmergedLoss = await evaluate();
  const files = await adapterFiles(model);
  for (const [name, parameter] of model.namedParameters()) {
    if (name.endsWith('lora_B.weight') && isHeldAt(parameter.part.layout, ownPlace)) {
      noGrad(() => parameter.part.assign(parameter.part.mul(0)));
    }
  }
  const forgottenLoss = await evaluate();
  await loadAdapter(model, files);
  const loadedLoss = await evaluate();
  const state = await model.stateDict();
  const parameters = model.namedParameters();
  const trainedNames = parameters.flatMap(([name, { requiresGrad }]) => (requiresGrad ? name : []));
  return {
    losses,
    mergedLoss,
    unmergedLoss,
    forgottenLoss,
    loadedLoss,
    trained: Object.fromEntries(trainedNames.map((name) => [name, [...floatsOf(state[name])]])),
    changed: Object.keys(before).filter(
      (name) =>
        !trainedNames.includes(name) && differ(floatsOf(before[name]), floatsOf(state[name])),
    ),
    gradientBytes,
    optimizerBytes,
    trainedBytes: parameters
      .filter(([, { requiresGrad, part }]) => requiresGrad && isHeldAt(part.layout, ownPlace))
      .reduce((sum, [, { part }]) => sum + elementCount(part.shape) * 4, 0),
  };
}

function lossAlone(model: SmallLanguage): LossOf {
  return ({ ids, targets }) => languageLoss(model.forward(ids), targets);
}

/** Returns the mean over the batches of a step. */
function meanOf(loss: Tensor, shares: number): Tensor {
  if (shares === 1) return loss;
  return noGrad(() => allReduce(loss.detach(), 'dp', { reduce: 'avg' }));
}

function floatsOf(array: HostArray | undefined): readonly number[] {
  if (array === undefined) return [];
  const { buffer } = array.bytes.slice();
  if (array.dtype === 'u8') return [...array.bytes];
  if (array.dtype === 'f32') return [...new Float32Array(buffer)];
  const high = new Uint16Array(buffer);
  return [...new Float32Array(Uint32Array.from(high, (bits) => bits * 2 ** 16).buffer)];
}

/** Whether frozen values differ by more than what merging them and back may round. */
function differ(before: readonly number[], after: readonly number[]): boolean {
  return before.some((value, index) => Math.abs(value - (after[index] ?? NaN)) > 0.02);
}

/** Cases of bases in fewer bits. DoRA and the other strategies compute with them in the same way. */
const inFewerBits = ['DDP', 'FSDP', 'tensor parallelism', 'a pipeline'];
const casesOf: Readonly<Record<Dtype, readonly string[]>> = {
  f32: Object.keys(cases),
  bf16: inFewerBits,
  nf4: [...inFewerBits, 'ZeRO-3', 'tensor parallelism beside FSDP'],
};

/** Tests adapters of every kind under the strategies: under all of them, or under a part for each kind. */
export function testAdaptersOnRanks({ hasAll }: { readonly hasAll: boolean }): void {
  const rows = Object.entries(adapters).map((each, row) => [...each, row] as const);

  describe.each(['f32', 'bf16', 'nf4'] as const)('adapters of a frozen base in %s', (dtype) => {
    const digits = dtype === 'bf16' ? 1 : 4;

    describe.each(rows)('%s', (_, options, row) => {
      let alone: Outcome | undefined;
      beforeAll(async () => {
        [alone] = await onRanks(1, () => train({ options, dtype, shares: 1, place: 0 }), onCpu);
      });

      const names = hasAll
        ? casesOf[dtype]
        : someForRow({ row, rows: rows.length }, casesOf[dtype], 1);
      it.each(names)(
        'trains under %s as on one rank, with gradients and states of the adapters only',
        async (name) => {
          const expected = alone ?? expect.fail(name);
          const { axes, parallelize } = cases[name] ?? expect.fail(name);
          const ranks = await onRanks(
            2 ** axes.length,
            ({ mesh }) => {
              const [shares, place] = axes.includes('dp') ? [2, mesh.coordinate('dp')] : [1, 0];
              return train({ parallelize, options, dtype, shares, place });
            },
            { axes: axes.map((axis) => ({ name: axis, size: 2 })), ...onCpu },
          );
          for (const rank of ranks) {
            for (const [step, loss] of expected.losses.entries()) {
              expect(rank.losses[step], `step ${step}`).toBeCloseTo(loss, digits);
            }
            expect(rank.mergedLoss).toBeCloseTo(expected.mergedLoss, digits);
            expect(rank.unmergedLoss).toBeCloseTo(expected.unmergedLoss, digits);
            expect(rank.loadedLoss).toBeCloseTo(rank.unmergedLoss, 6);
            expect(rank.forgottenLoss).toBeCloseTo(expected.forgottenLoss, digits);
            expect(Math.abs(rank.forgottenLoss - rank.loadedLoss)).toBeGreaterThan(0.02);
            expect(rank.changed).toEqual([]);
            expect(Object.keys(rank.trained)).toEqual(Object.keys(expected.trained));
            for (const [parameter, values] of Object.entries(expected.trained)) {
              for (const [index, value] of values.entries()) {
                expect(rank.trained[parameter]?.[index], parameter).toBeCloseTo(value, digits);
              }
            }
            const { gradientBytes, optimizerBytes, trainedBytes } = rank;
            expect(optimizerBytes).toBe(trainedBytes);
            expect(gradientBytes).toBeGreaterThanOrEqual(trainedBytes);
            expect(gradientBytes).toBeLessThanOrEqual(trainedBytes * 2);
          }
        },
      );
    });
  });
}
