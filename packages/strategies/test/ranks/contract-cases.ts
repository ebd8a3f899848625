import { fromData, hostPages, type MeshAxis, nn, type Strategy } from '@shardwise/core';
import {
  compose,
  dataParallel,
  ddp,
  diloco,
  fsdp,
  pipeline,
  type PipelineOptions,
  tensorParallel,
  zero,
} from '@shardwise/strategies';
import {
  contractModels,
  type StrategyCase,
  type StrategyCases,
  type StrategyModel,
} from '@shardwise/testing';
import { beside } from './beside.ts';
import { lossesOfManyModels, outerCases } from './outer-cases.ts';
import {
  sequences,
  sizes as tokensOf,
  strategyModelOf,
  type Training,
  trainings,
} from './tensor-parallel-models.ts';

/** A mesh with this number of replicas. The ranks of a replica are on the other axis. */
const inReplicas =
  (replicas: number): NonNullable<StrategyCase['mesh']> =>
  (size) =>
    size % replicas === 0
      ? [
          { name: 'replicas', size: replicas },
          { name: 'dp', size: size / replicas },
        ]
      : null;

const only =
  (ranks: number): NonNullable<StrategyCase['mesh']> =>
  (size) =>
    size === ranks ? [{ name: 'dp', size }] : null;

/** Strategies that shard the batch. */
export const batchCases = {
  DDP: { strategy: () => ddp() },
  'DDP that finds unused parameters': { strategy: () => ddp({ findUnusedParameters: true }) },
  'DDP of a static graph, in buckets of one parameter': {
    strategy: () => ddp({ staticGraph: true, bucketBytes: 1 }),
  },
  'DDP that divides before and after the sum': {
    strategy: () => ddp({ gradientPredivideFactor: 2 }),
  },
  DataParallel: { strategy: () => dataParallel(), apart: ['send', 'recv'] },
  'ZeRO-1': { strategy: () => zero({ stage: 1 }) },
  'ZeRO-2': { strategy: () => zero({ stage: 2 }) },
  'ZeRO-2 in buckets of one parameter': { strategy: () => zero({ stage: 2, bucketBytes: 1 }) },
  'ZeRO-3': { strategy: () => zero({ stage: 3 }) },
  FSDP: { strategy: () => fsdp() },
  'FSDP that keeps parameters until backward': {
    strategy: () => fsdp({ reshardAfterForward: false }),
  },
  'FSDP that reshards everything, without prefetch': {
    strategy: () => fsdp({ reshardAfterForward: true, prefetch: 0 }),
  },
  'FSDP that collects from two neighbours in backward': {
    strategy: () => fsdp({ reshardAfterForward: 2 }),
    mesh: only(4),
  },
  'FSDP in two replicas': {
    strategy: () => fsdp({ replicas: 'replicas' }),
    mesh: inReplicas(2),
  },
  'FSDP with parameters in host memory': { strategy: () => fsdp({ pages: hostPages() }) },
} as const satisfies StrategyCases;

const meshOf = (replicas: number, dp: number, tp: number): readonly MeshAxis[] => [
  { name: 'replicas', size: replicas },
  { name: 'dp', size: dp },
  { name: 'tp', size: tp },
];

/** A case that trains on one mesh, with the batch in `shares` parts. */
function layerCase(
  training: Training,
  shares: number,
  mesh: NonNullable<StrategyCase['mesh']>,
  other?: () => Strategy,
): StrategyCase {
  const tokens = (sequences / shares) * tokensOf.tokens;
  return {
    strategy: () => {
      const only = tensorParallel(training.styles, { tokens });
      return other === undefined ? only : compose(only, other());
    },
    mesh,
    models: { 'its model': strategyModelOf(training) },
  };
}

/** Strategies that shard layers, alone and composed with those that shard the batch. */
export const layerCases: StrategyCases = Object.fromEntries(
  Object.entries(trainings).flatMap(([name, training]) => [
    [`tensor parallelism of ${name}`, layerCase(training, 1, (size) => meshOf(1, 1, size))],
    ...Object.entries(beside).map(([other, build]) => [
      `tensor parallelism × ${other} of ${name}`,
      layerCase(training, 2, (size) => (size === 4 ? meshOf(1, 2, 2) : null), build),
    ]),
    ...([1, 2] as const).map((dp) => [
      `tensor parallelism × FSDP in replicas of ${dp} of ${name}`,
      layerCase(
        training,
        2 * dp,
        (size) => (size === 4 ? meshOf(2, dp, 2 / dp) : null),
        () => fsdp({ replicas: 'replicas' }),
      ),
    ]),
  ]),
);

/** Two replicas of divided layers. Each trains alone, because it keeps all of its own values in outer steps. */
const replicasThatMeet: StrategyCases = Object.fromEntries(
  Object.entries(trainings).map(([name, training]) => {
    const mesh: NonNullable<StrategyCase['mesh']> = (size) => (size === 4 ? meshOf(1, 2, 2) : null);
    const strategy = (): Strategy => diloco({ every: 2, fragmentUpdateAlpha: 1 });
    const found: StrategyCase = {
      ...layerCase(training, 2, mesh, strategy),
      period: 2,
      expectedLosses: (expected) => lossesOfManyModels(expected, { every: 2, meet: () => {} }),
    };
    return [`DiLoCo of tensor parallelism of ${name}`, found];
  }),
);

/** A model whose stages share no weights. */
const chain: StrategyModel = {
  build: () =>
    new nn.Sequential(
      new nn.Linear(7, 13),
      new nn.GELU(),
      new nn.Linear(13, 6),
      new nn.Tanh(),
      new nn.Linear(6, 5),
    ),
  rows: 12,
  batch: (step, first, stop) => {
    const value = (row: number, at: number): number => Math.sin(row * 7 + at * 3 + step);
    const rows = Array.from({ length: stop - first }, (_, index) => first + index);
    const x = rows.flatMap((row) => Array.from({ length: 7 }, (_, at) => value(row, at)));
    return {
      x: fromData(Float32Array.from(x), [rows.length, 7], 'f32'),
      y: fromData(
        Int32Array.from(rows, (row) => (row + step) % 5),
        [rows.length],
        'i32',
      ),
    };
  },
  loss: (output, y) => nn.functional.crossEntropy(output, y),
};

/**
 * A case with stages on two ranks. With `other`, each stage has two ranks, over which that strategy shards the batch.
 */
function stagedCase(
  options: Pick<PipelineOptions, 'schedule' | 'microbatches'>,
  other?: () => Strategy,
): StrategyCase {
  const stages = (model: StrategyModel): Strategy => pipeline({ ...options, loss: model.loss });
  if (other === undefined) {
    return {
      strategy: (_, model) => stages(model),
      mesh: (size) => (size === 2 ? [{ name: 'pp', size }] : null),
    };
  }
  return {
    strategy: (_, model) => compose(stages(model), other()),
    mesh: (size) =>
      size === 4
        ? [
            { name: 'pp', size: 2 },
            { name: 'dp', size: 2 },
          ]
        : null,
    models: { 'a chain of layers': chain },
  };
}

/** Strategies that cut a model into stages, alone and composed with those that shard the batch. */
export const stageCases: StrategyCases = {
  'a pipeline by GPipe': stagedCase({ schedule: 'gpipe', microbatches: 4 }),
  'a pipeline by 1F1B': stagedCase({ schedule: '1f1b', microbatches: 3 }),
  'a pipeline by ZB1P': stagedCase({ schedule: 'zb1p', microbatches: 2 }),
  ...Object.fromEntries(
    Object.entries(beside).map(([other, build]) => [
      `a pipeline × ${other}`,
      stagedCase({ schedule: '1f1b', microbatches: 3 }, build),
    ]),
  ),
};

/** The cases of all strategies. */
export const strategyCases: StrategyCases = {
  ...batchCases,
  ...outerCases,
  ...layerCases,
  ...replicasThatMeet,
  ...stageCases,
};

/**
 * One strategy of each kind. The quick test has these on two ranks, and the full test has the others, each with one of
 * its models. The slow test has all of them with all models.
 */
const ofEachKind = [
  'DDP',
  'DataParallel',
  'ZeRO-1',
  'FSDP',
  'DiLoCo in fragments that overlap',
  'tensor parallelism of a GPT',
  'a pipeline by 1F1B',
];

const isForTwo = ([, { mesh }]: readonly [string, StrategyCase]): boolean => mesh?.(2) !== null;

/**
 * The number of compositions of each training: with each strategy that shards the batch, and with FSDP in two kinds of
 * replicas.
 */
const compositionsOfTraining = Object.keys(beside).length + 2;
const composed = Object.keys(layerCases).filter((name) => name.includes(' × '));

/** Chooses a composition of each training, another one of each, and the last one, so that every composition occurs. */
function isChosenComposition(name: string): boolean {
  const index = composed.indexOf(name);
  const training = Math.floor(index / compositionsOfTraining);
  return index === composed.length - 1 || index % compositionsOfTraining === training;
}

/** Whether the full test has a case that two ranks cannot run: every third outer training, every second pipeline. */
function isChosen(name: string): boolean {
  if (composed.includes(name)) return isChosenComposition(name);
  for (const [cases, every] of [[replicasThatMeet, 3] as const, [stageCases, 2] as const]) {
    const index = Object.keys(cases).indexOf(name);
    if (index >= 0) return index % every === 0;
  }
  return true;
}

const casesWhere = (holds: (entry: readonly [string, StrategyCase]) => boolean): StrategyCases =>
  Object.fromEntries(Object.entries(strategyCases).filter(holds));

/** The same cases, each with one of its models: neighbouring cases have different ones. */
function withOneModel(cases: StrategyCases): StrategyCases {
  return Object.fromEntries(
    Object.entries(cases).map(([name, each], row) => {
      const models = Object.entries(each.models ?? contractModels);
      const one = models.filter((_, at) => at === row % models.length);
      return [name, { ...each, models: Object.fromEntries(one) }];
    }),
  );
}

export const casesOfTwo: Readonly<Record<'quick' | 'full' | 'slow', StrategyCases>> = {
  quick: withOneModel(casesWhere(([name]) => ofEachKind.includes(name))),
  full: withOneModel(casesWhere((entry) => isForTwo(entry) && !ofEachKind.includes(entry[0]))),
  slow: casesWhere(isForTwo),
};

/**
 * The cases for four ranks. `some` and `others` are those that two ranks cannot run, and `also` those that two ranks
 * can.
 */
export const casesOfFour: Readonly<Record<'some' | 'others' | 'also', StrategyCases>> = {
  some: casesWhere((entry) => !isForTwo(entry) && isChosen(entry[0])),
  others: casesWhere((entry) => !isForTwo(entry) && !isChosen(entry[0])),
  also: casesWhere(isForTwo),
};
