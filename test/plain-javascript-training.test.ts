// Plain JavaScript has no checker of types: what a training is set up from must say so where it is given something else.
import * as sw from 'shardwise';
import { interpreter } from '@shardwise/testing';
import { beforeEach, describe, expect, it } from 'vitest';
import { callOf, callRight, construct, isRefusal, methodOf, opt } from './support/calls.ts';
import * as takes from './support/wrong-arguments.ts';
import { type Argument, type Call, unnoticed } from './support/wrong-arguments.ts';

const group = sw.dist.singleGroup();
const rank = (): void =>
  sw.setRank({ device: interpreter(), mesh: new sw.dist.LineMesh('dp', group) });
rank();
beforeEach(rank);

const state = (given: object): Argument => ({
  given,
  wrong: [null, 1, 'x', true, {}, [], Promise.resolve(given)],
});
const linear = (): sw.nn.Linear => new sw.nn.Linear(2, 2);
const params = (): sw.nn.Parameter[] => [new sw.nn.Parameter(new Float32Array(4), [2, 2])];
const sgd = (): sw.optim.SGD => new sw.optim.SGD(params(), { lr: 1 });
const scheduler = (): sw.optim.LearningRateScheduler =>
  new sw.optim.LearningRateScheduler(sgd(), () => 1);
const sampler = (): sw.data.DistributedSampler =>
  new sw.data.DistributedSampler({ dataset: 4, numReplicas: 2, rank: 0 });
const loader = (): object =>
  new sw.data.DataLoader({
    dataset: new sw.data.ArrayDataset(sw.data.ndArray(new Float32Array(4))),
  });
const model: Argument = {
  given: linear(),
  wrong: [null, {}, 'x', 1, true, sw.nn.Linear, [], Promise.resolve(linear())],
};
const strategy: Argument = {
  given: sw.dist.ddp(),
  wrong: [null, {}, 'ddp', 1, true, sw.dist.ddp, []],
};
const plan: Argument = {
  given: sw.dist.planFor(linear(), sw.dist.ddp()),
  wrong: [null, {}, 1, 'x', sw.dist.ddp(), linear()],
};
const optimizer = takes.object(sgd());
const x = takes.tensor(sw.ones([2, 2]));
const { optim } = sw;
const optimizers = (
  [
    'SGD',
    'Adam',
    'AdamW',
    'AdamW8bit',
    'Adagrad',
    'Adafactor',
    'Lamb',
    'Lion',
    'RMSprop',
    'OneBitAdam',
    'Muon',
  ] as const
).map(
  (name) =>
    [`new ${name}`, construct(optim[name], takes.tensors(params()), opt({ lr: 1 }))] as const,
);

const calls: readonly (readonly [string, Call])[] = [
  ...optimizers,
  ['optimizer.step', methodOf(sgd, 'step', opt())],
  [
    'optimizer.addParamGroup',
    methodOf(sgd, 'addParamGroup', {
      given: { params: params() },
      wrong: [
        null,
        {},
        1,
        'x',
        [],
        params(),
        { params: 1 },
        { params: params(), rate: 1 },
        { params: params(), lr: '1' },
      ],
    }),
  ],
  ['optimizer.loadStateDict', methodOf(sgd, 'loadStateDict', state(await sgd().stateDict()))],
  [
    'LearningRateScheduler.loadStateDict',
    methodOf(scheduler, 'loadStateDict', {
      given: { step: 1, baseLearningRates: [1] },
      wrong: [
        ...state({}).wrong,
        { step: 1 },
        { step: '1', baseLearningRates: [1] },
        { step: 1, baseLearningRates: ['1'] },
        { step: 1, baseLearningRates: [Number.NaN] },
        { step: 1, baseLearningRates: 1 },
      ],
    }),
  ],
  [
    'new OneCycleScheduler',
    construct(
      optim.OneCycleScheduler,
      optimizer,
      takes.options({ maxLr: 1, totalSteps: 10, cycleMomentum: false }),
    ),
  ],
  ['new ReduceLROnPlateau', construct(optim.ReduceLROnPlateau, optimizer, opt())],
  [
    'ReduceLROnPlateau.step',
    methodOf(() => new optim.ReduceLROnPlateau(sgd()), 'step', takes.number(1)),
  ],
  [
    'ReduceLROnPlateau.loadStateDict',
    methodOf(
      () => new optim.ReduceLROnPlateau(sgd()),
      'loadStateDict',
      state(new optim.ReduceLROnPlateau(sgd()).stateDict()),
    ),
  ],
  ['new SWALR', construct(optim.SWALR, optimizer, takes.options({ swaLr: 1 }))],
  ['new AveragedWeights', construct(optim.AveragedWeights, model, opt())],
  [
    'updateBatchNorm',
    callOf(
      optim.updateBatchNorm,
      model,
      { given: [1], wrong: [null, {}, 1, true] },
      takes.callback(() => 1),
    ),
  ],
  ['new LossScaler', construct(optim.LossScaler, takes.setting(2))],
  ['LossScaler.scale', methodOf(() => new optim.LossScaler(2), 'scale', x)],
  ['LossScaler.unscale', methodOf(() => new optim.LossScaler(2), 'unscale', optimizer)],
  ['LossScaler.step', methodOf(() => new optim.LossScaler(2), 'step', optimizer)],
  ['new DynamicLossScaler', construct(optim.DynamicLossScaler, opt())],
  [
    'DynamicLossScaler.loadStateDict',
    methodOf(
      () => new optim.DynamicLossScaler(),
      'loadStateDict',
      state(new optim.DynamicLossScaler().stateDict()),
    ),
  ],
  [
    'new DistributedSampler',
    construct(sw.data.DistributedSampler, takes.options({ dataset: 4, numReplicas: 2, rank: 0 })),
  ],
  [
    'new WeightedRandomSampler',
    construct(sw.data.WeightedRandomSampler, takes.options({ weights: [1, 1], numSamples: 2 })),
  ],
  ['DistributedSampler.setEpoch', methodOf(sampler, 'setEpoch', takes.whole(1))],
  ['DataLoader.setEpoch', methodOf(loader, 'setEpoch', takes.whole(1))],
  [
    'DataLoader.load',
    methodOf(loader, 'load', state(Reflect.apply(Reflect.get(loader(), 'state'), loader(), []))),
  ],
  ['ddp', callOf(sw.dist.ddp, opt({ bucketBytes: 1 }))],
  ['diloco', callOf(sw.dist.diloco, takes.options({ every: 2 }))],
  ['localSgd', callOf(sw.dist.localSgd, takes.options({ every: 2 }))],
  ['fsdp', callOf(sw.dist.fsdp, opt({ prefetch: 1 }))],
  ['zero', callOf(sw.dist.zero, takes.options({ stage: 1 }))],
  ['dataParallel', callOf(sw.dist.dataParallel, opt({ axis: 'dp' }))],
  ['expertParallel', callOf(sw.dist.expertParallel, opt())],
  ['powerSgdHook', callOf(sw.dist.powerSgdHook, opt())],
  ['parameterServer', callOf(sw.dist.parameterServer, takes.options({ servers: { size: 1 } }))],
  [
    'tensorParallel',
    callOf(
      sw.dist.tensorParallel,
      {
        given: { fc: sw.dist.styles.colwiseParallel() },
        wrong: [
          null,
          1,
          'x',
          { fc: 1 },
          { fc: sw.dist.styles.colwiseParallel },
          { fc: {} },
          { fc: undefined },
        ],
        isOptional: true,
      },
      opt({ axis: 'tp' }),
    ),
  ],
  ['colwiseParallel', callOf(sw.dist.styles.colwiseParallel, opt())],
  ['rowwiseParallel', callOf(sw.dist.styles.rowwiseParallel, opt())],
  ['sequenceParallel', callOf(sw.dist.styles.sequenceParallel, opt())],
  ['headParallel', callOf(sw.dist.styles.headParallel, takes.options({ numHeads: 2 }))],
  ['gptTensorParallel', callOf(sw.dist.styles.gptTensorParallel, takes.options({ heads: 2 }))],
  ['vocabParallelEmbedding', callOf(sw.dist.styles.vocabParallelEmbedding, opt())],
  [
    'prepareModuleInput',
    callOf(sw.dist.styles.prepareModuleInput, opt({ from: 'invariant', to: 'invariant' })),
  ],
  [
    'prepareModuleOutput',
    callOf(
      sw.dist.styles.prepareModuleOutput,
      takes.options({ from: 'invariant', to: 'invariant' }),
    ),
  ],
  ['pipeline', callOf(sw.dist.pipeline, opt({ schedule: 'gpipe', microbatches: 2 }))],
  ['new GPipe', construct(sw.dist.GPipe, model, opt({ chunks: 2 }))],
  [
    'pipelineSchedule',
    callOf(
      sw.dist.schedules.pipelineSchedule,
      takes.text('gpipe'),
      takes.options({ ranks: 2, microbatches: 2 }),
    ),
  ],
  [
    'balancedPartition',
    callOf(
      sw.dist.schedules.balancedPartition,
      { given: [1, 2, 3], wrong: [null, {}, 1, '123', [null], ['1', '2']] },
      takes.whole(2),
    ),
  ],
  [
    'countModelCosts',
    callOf(
      sw.dist.schedules.countModelCosts,
      model,
      { given: [sw.ones([2, 2])], wrong: [null, {}, 1, sw.ones([2, 2])] },
      opt({ loss: (y: sw.Tensor) => y.sum() }),
    ),
  ],
  ['compose', callOf(sw.dist.compose, strategy, strategy)],
  ['planFor', callOf(sw.dist.planFor, model, strategy)],
  // A model takes one strategy: each call has a model of its own.
  [
    'parallelize of a model',
    callOf(
      (own: never) => sw.dist.parallelize(own === model.given ? linear() : own, sw.dist.ddp()),
      model,
    ),
  ],
  [
    'parallelize',
    callOf(
      (...given: never[]) => Reflect.apply(sw.dist.parallelize, undefined, [linear(), ...given]),
      strategy,
    ),
  ],
  ['explain', callOf(sw.dist.explain, plan, opt({ optimizerTensors: 2 }))],
  ['planMemory', callOf(sw.dist.planMemory, plan, opt({ optimizerTensors: 2 }))],
  ['memory', callOf(sw.dist.memory, takes.options({ model: linear() }))],
  ['constructSharded', callOf(sw.dist.constructSharded, takes.callback(linear), strategy)],
  [
    'join',
    callOf(
      sw.dist.join,
      { given: [], wrong: [null, {}, 1, [1], [linear()]] },
      takes.callback(async () => 1),
      opt(),
    ),
  ],
  [
    'gatherForMetrics',
    callOf(
      sw.dist.gatherForMetrics,
      {
        given: { x: [sw.ones([4])] },
        wrong: [null, 1, 'x', {}, [], { x: 1 }, { x: sw.ones([4]) }],
      },
      takes.options({
        sampler: new sw.data.DistributedSampler({ dataset: 4, numReplicas: 1, rank: 0 }),
      }),
    ),
  ],
  [
    'new OffloadedOptimizer',
    construct(
      sw.dist.OffloadedOptimizer,
      model,
      optimizer,
      takes.options({ states: sw.dist.hostPages() }),
    ),
  ],
  [
    'new OptimisticOptimizer',
    construct(sw.dist.OptimisticOptimizer, optimizer, takes.options({ maxNorm: 1 })),
  ],
  [
    'new ZeroRedundancyOptimizer',
    construct(
      sw.dist.ZeroRedundancyOptimizer,
      takes.tensors(params()),
      { given: optim.SGD, wrong: [null, {}, 1, 'SGD', () => 1, sgd(), sw.nn.Linear] },
      opt({ lr: 1 }),
    ),
  ],
  [
    'registerHook',
    methodOf(
      () => sw.ones([2, 2]).mul(linear().weight),
      'registerHook',
      takes.callback(() => undefined),
    ),
  ],
  ...(
    ['registerForwardHook', 'registerForwardPreHook', 'registerFullBackwardHook', 'apply'] as const
  ).map(
    (name) =>
      [
        name,
        methodOf(
          linear,
          name,
          takes.callback(() => undefined),
        ),
      ] as const,
  ),
  [
    'init',
    callOf(sw.init, {
      given: { group, device: interpreter() },
      wrong: [
        null,
        1,
        'x',
        [],
        { surprise: 1 },
        { timeoutMs: '1' },
        { group: 1 },
        { device: 'cpu' },
      ],
      isOptional: true,
    }),
  ],
];

/** What would be dropped of these changes a training. */
const closed = [...optimizers.map(([name]) => name), 'parallelize'];

describe('of a training', () => {
  it.each(calls)('%s refuses what it does not take', async (name, call) => {
    await callRight(call);
    const isOpen = !closed.includes(name);
    expect(await unnoticed({ ...call, isOpen }, isRefusal)).toEqual([]);
  });
});
