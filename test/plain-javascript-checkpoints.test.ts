// Plain JavaScript has no checker of types: what would not be saved or loaded must say so.
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import * as sw from 'shardwise';
import { interpreter } from '@shardwise/testing';
import { afterAll, beforeEach, describe, expect, it } from 'vitest';
import { callOf, callRight, isRefusal, opt } from './support/calls.ts';
import * as takes from './support/wrong-arguments.ts';
import { type Argument, type Call, unnoticed } from './support/wrong-arguments.ts';

const group = sw.dist.singleGroup();
const rank = (): void =>
  sw.setRank({ device: interpreter(), mesh: new sw.dist.LineMesh('dp', group) });
rank();
beforeEach(rank);
const folder = await mkdtemp(join(tmpdir(), 'plain-javascript-'));
afterAll(() => rm(folder, { recursive: true }));

const path = (name: string): Argument => ({
  given: join(folder, name),
  wrong: [null, {}, 1, true, ''],
});
const linear = (): sw.nn.Linear => new sw.nn.Linear(2, 2);
const scheduler = (): sw.optim.LearningRateScheduler =>
  new sw.optim.LearningRateScheduler(new sw.optim.SGD(linear().parameters()), () => 1);
const loader = new sw.data.DataLoader({
  dataset: new sw.data.ArrayDataset(sw.data.ndArray(new Float32Array(4))),
});
const trained = linear();
const trainer = new sw.optim.SGD(trained.parameters(), { lr: 1 });
const saved = await sw.checkpoints.save(join(folder, 'trained'), {
  step: 1,
  model: trained,
  optimizer: trainer,
  states: { schedule: scheduler() },
});
const checkpoint: Argument = {
  given: await sw.checkpoints.load(saved),
  wrong: [null, {}, 1, saved, sw.checkpoints.load(saved), trained],
};
const model: Argument = {
  given: trained,
  wrong: [
    null,
    {},
    'x',
    1,
    true,
    sw.nn.Linear,
    [],
    await sw.dist.parallelize(linear(), sw.dist.ddp()),
  ],
};
const optimizer = takes.object(trainer);
const stateful: Argument = { given: trainer, wrong: [null, {}, 1, linear, 'x'] };

const calls: readonly (readonly [string, Call])[] = [
  [
    'saveCheckpoint',
    callOf(
      sw.checkpoints.save,
      path('saved'),
      takes.options({ step: 1, model: linear() }),
      opt({ keep: 2 }),
    ),
  ],
  ['checkpoints.load', callOf(sw.checkpoints.load, path('saved'))],
  [
    'loadModel',
    callOf(
      sw.checkpoints.loadModel,
      checkpoint,
      model,
      takes.optional(takes.options({ strict: true })),
    ),
  ],
  ['loadOptimizer', callOf(sw.checkpoints.loadOptimizer, checkpoint, model, optimizer)],
  [
    'loadStates',
    callOf(
      sw.checkpoints.loadStates,
      checkpoint,
      { given: { schedule: scheduler() }, wrong: [null, { schedule: 1 }, { schedule: loader }] },
      opt({ group }),
    ),
  ],
  [
    'saveCheckpoint of',
    callOf(
      (more: never) =>
        sw.checkpoints.save(join(folder, 'more'), { step: 1, model: trained, ...Object(more) }),
      {
        given: { extra: { epoch: 1 } },
        wrong: [
          { step: '1' },
          { model: null },
          { model: sw.dist.parallelize(linear(), sw.dist.ddp()) },
          { model: await sw.dist.parallelize(linear(), sw.dist.ddp()) },
          { model: [trained] },
          { optimizer: 1 },
          { states: { loader: loader } },
          { extra: new Map([['epoch', 1]]) },
          { extra: { loss: Number.NaN } },
          { extra: { when: new Date(0) } },
          { rankExtra: { ids: new Set([1]) } },
          { rankExtra: sw.ones([1]) },
        ],
        isOptional: true,
      },
    ),
  ],
  ['saveStateFile', callOf(sw.checkpoints.saveStateFile, path('state'), stateful)],
  ['loadStateFile', callOf(sw.checkpoints.loadStateFile, path('state'), stateful)],
  [
    'saveTensorFile',
    callOf(sw.checkpoints.saveTensorFile, path('tensors'), {
      given: { a: sw.ones([2]) },
      wrong: [
        null,
        1,
        'x',
        true,
        [],
        [sw.ones([2])],
        sw.ones([2]),
        linear(),
        new Map(),
        { a: 1 },
        linear().stateDict(),
      ],
    }),
  ],
  ['loadTensorFile', callOf(sw.checkpoints.loadTensorFile, path('tensors'))],
];

/** Of these, one more argument would be what is not saved or loaded. */
const closed = ['checkpoints.load', 'loadOptimizer', 'saveStateFile', 'loadStateFile'];

describe('of checkpoints', () => {
  it('a checkpoint that is opened is loaded into nothing', async () => {
    const open = (...given: never[]): unknown =>
      Reflect.apply(sw.checkpoints.load, undefined, [saved, ...given]);
    await expect(open(trained as never)).rejects.toThrow(
      'checkpoints.load with a Linear as argument 2: it opens a checkpoint, and loads nothing into another argument. Give what it returns to loadModel',
    );
  });

  it.each(calls)('%s refuses what it does not take', async (name, call) => {
    await callRight(call);
    const isOpen = !closed.includes(name);
    expect(await unnoticed({ ...call, isOpen }, isRefusal)).toEqual([]);
  });
});
