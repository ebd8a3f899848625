import { fromData, type MeshAxis, nn, type Strategy } from '@shardwise/core';
import {
  colwiseParallel,
  compose,
  pipeline,
  type ScheduleName,
  tensorParallel,
} from '@shardwise/strategies';
import type { StrategyCase, StrategyCases, StrategyModel } from '@shardwise/testing';
import { beside } from './beside.ts';
import {
  sequences,
  sizes as tokensOf,
  TiedGpt,
  tiedStyles,
  strategyModelOf,
  type Training,
  trainings,
} from './tensor-parallel-models.ts';
import { onePerRank, twoPerRank } from './schedule-names.ts';

function meshOf(sizes: Readonly<Record<string, number>>): NonNullable<StrategyCase['mesh']> {
  const axes = Object.entries(sizes).map(([name, size]): MeshAxis => ({ name, size }));
  const all = axes.reduce((product, { size }) => product * size, 1);
  return (size) => (size === all ? axes : null);
}

/** A case with sharded layers in stages on two ranks. */
function layersInStages(
  training: Training,
  sizes: Readonly<Record<string, number>>,
  other?: () => Strategy,
  microbatches = 2,
): StrategyCase {
  const tokens = (sequences / (sizes['dp'] ?? 1)) * tokensOf.tokens;
  return {
    strategy: (_, { loss }) => {
      const stages = pipeline({ schedule: '1f1b', microbatches, loss });
      const layers = tensorParallel(training.styles, { tokens });
      return other === undefined
        ? compose(layers, stages)
        : compose(layers, compose(stages, other()));
    },
    mesh: meshOf(sizes),
    models: { 'its model': strategyModelOf(training) },
  };
}

/** The embedding and the head, in different stages, each have a part of the weight that they share. */
const tied: Training = {
  build: () => new TiedGpt(),
  styles: { ...tiedStyles, head: colwiseParallel({ output: 'invariant' }) },
  loss: (logits, targets) => nn.functional.crossEntropy(logits, targets),
  reference: (logits, targets) => nn.functional.crossEntropy(logits, targets),
};

const layered: readonly (readonly [string, Training])[] = [
  ...Object.entries(trainings),
  ['a GPT whose head shares the parts of its embedding', tied],
];

/** Six layers. The last one shares the weight of the first one. */
const row: StrategyModel = {
  build: () => {
    const layers = Array.from({ length: 6 }, () => new nn.Linear(5, 5));
    const [first, last] = [layers[0], layers[5]];
    if (first !== undefined && last !== undefined) last.weight = first.weight;
    return new nn.Sequential(...layers);
  },
  rows: 12,
  batch: (step, start, stop) => {
    const rows = Array.from({ length: stop - start }, (_, index) => start + index);
    const x = rows.flatMap((at) => range(5).map((column) => Math.sin(at * 7 + column * 3 + step)));
    const y = rows.map((at) => (at + step) % 5);
    return {
      x: fromData(Float32Array.from(x), [rows.length, 5], 'f32'),
      y: fromData(Int32Array.from(y), [rows.length], 'i32'),
    };
  },
  loss: (output, y) => nn.functional.crossEntropy(output, y),
};

function range(count: number): number[] {
  return Array.from({ length: count }, (_, index) => index);
}

/** A case on two ranks with a weight that both ranks read. */
function scheduled(schedule: ScheduleName, stagesPerRank: number): StrategyCase {
  return {
    strategy: (size, { loss }) =>
      pipeline({ schedule, microbatches: 4, stages: stagesPerRank * size, loss }),
    mesh: meshOf({ pp: 2 }),
    models: { 'a row of layers': row },
  };
}

/** A pipeline for every schedule. */
export const scheduleCases: StrategyCases = Object.fromEntries(
  [onePerRank, twoPerRank].flatMap((schedules, index) =>
    schedules.map((schedule) => [
      `a pipeline by ${schedule} of ${index + 1} stages on each rank`,
      scheduled(schedule, index + 1),
    ]),
  ),
);

/** Pipelines whose stages share weights or whose layers are sharded, composed with strategies that shard the batch. */
export const compositionCases: StrategyCases = Object.fromEntries([
  ...Object.entries(beside).map(([name, other]) => [
    `a pipeline × ${name} of models with shared weights`,
    {
      strategy: (_, { loss }) =>
        compose(pipeline({ schedule: '1f1b', microbatches: 3, loss }), other()),
      mesh: meshOf({ pp: 2, dp: 2 }),
    } satisfies StrategyCase,
  ]),
  ...layered.flatMap(([model, training]) => [
    [`layers in stages of ${model}`, layersInStages(training, { tp: 2, pp: 2 })],
    [
      `layers in stages of ${model}, in microbatches of 2, 1 and 1 rows`,
      layersInStages(training, { tp: 2, pp: 2 }, undefined, 3),
    ],
    ...Object.entries(beside).map(([name, other]) => [
      `layers in stages × ${name} of ${model}`,
      layersInStages(training, { dp: 2, pp: 2, tp: 2 }, other),
    ]),
  ]),
]);
