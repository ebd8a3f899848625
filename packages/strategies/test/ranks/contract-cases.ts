import { hostPages, type MeshAxis, type Strategy } from '@shardwise/core';
import { compose, dataParallel, ddp, fsdp, tensorParallel, zero } from '@shardwise/strategies';
import type { StrategyCase, StrategyCases, StrategyModel } from '@shardwise/testing';
import {
  batchOf,
  sequences,
  sizes as tokensOf,
  type Training,
  trainings,
} from './tensor-parallel-models.ts';

/** Of the ranks of a replica, and so many replicas of them. */
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

/** Strategies that share out the batch. */
export const batchCases = {
  DDP: { strategy: () => ddp() },
  'DDP that finds unused parameters': { strategy: () => ddp({ findUnusedParameters: true }) },
  'DDP of a static graph, in buckets of one parameter': {
    strategy: () => ddp({ staticGraph: true, bucketBytes: 1 }),
  },
  'DDP that divides before and after the sum': {
    strategy: () => ddp({ gradientPredivideFactor: 2 }),
  },
  DataParallel: { strategy: () => dataParallel(), apart: ['send'] },
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

/** What shares out the batch, where the ranks of `tp` share out each layer. */
const beside: Readonly<Record<string, () => Strategy>> = {
  DDP: () => ddp(),
  'ZeRO-1': () => zero({ stage: 1 }),
  'ZeRO-2': () => zero({ stage: 2 }),
  'ZeRO-3': () => zero({ stage: 3 }),
  FSDP: () => fsdp(),
};

const meshOf = (replicas: number, dp: number, tp: number): readonly MeshAxis[] => [
  { name: 'replicas', size: replicas },
  { name: 'dp', size: dp },
  { name: 'tp', size: tp },
];

function modelOf({ build, loss, reference }: Training): StrategyModel {
  return {
    build,
    rows: sequences,
    batch: (step, first, stop) => {
      const { ids, targets } = batchOf(step, first, stop);
      return { x: ids, y: targets };
    },
    loss,
    lossAlone: reference,
  };
}

/** A training on one mesh: in `shares` parts of the batch. */
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
    models: { 'its model': modelOf(training) },
  };
}

/** Strategies that share out layers, alone and composed with those that share out the batch. */
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

/** All of them. */
export const strategyCases: StrategyCases = { ...batchCases, ...layerCases };
