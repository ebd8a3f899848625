import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import {
  concat,
  manualSeed,
  nn,
  noGrad,
  optim,
  type ProcessGroup,
  ShardwiseError,
  statistics,
  Tensor,
  tensor,
} from '@shardwise/core';
import { currentSession } from '@shardwise/core/extend';
import {
  onEveryRank,
  parallelize,
  pipeline,
  type PipelineOptions,
  type PlannedModelWithLoss,
} from '@shardwise/strategies';
import { onRanks, type RankInThread } from '@shardwise/testing/node';
import { checkpoints } from 'shardwise';
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest';
import { onCpu } from '../../../test/support/on-cpu.ts';
import { Language, languageBatch, languageLoss } from './ranks/pipeline-models.ts';

type Numbers = number[];

interface Behaviour {
  /** Evaluations before and after one training step: in the pipeline and on one rank. */
  evaluation: {
    before: Numbers;
    after: Numbers;
    outputs: {
      own: string;
      shared: Numbers;
      alone: Numbers;
    };
  };
  /** The ids that follow a prompt: in the pipeline and on one rank. */
  generation: {
    piped: Numbers;
    alone: Numbers;
  };
  /** The gradients of two passes: accumulated, of the sum of the losses, and on one rank. */
  passes: {
    apart: Numbers;
    together: Numbers;
    alone: Numbers;
  };
  /** Whether the optimizer took a step whose loss overflows, and the step after it. */
  scaled: {
    overflow: boolean;
    finite: boolean;
    scales: Numbers;
  };
  /** The running means: in the pipeline and on one rank. */
  buffers: {
    piped: Numbers;
    alone: Numbers;
  };
  /** The outputs of blocks that a hook retains, of both microbatches of a pass: those that this rank has, and those of one rank. */
  retained: {
    piped: Record<string, Numbers>;
    alone: Record<string, Numbers>;
  };
  /** Running means that change once per pass, and the expected means of all rows that reached each norm. */
  deferred: {
    piped: Numbers;
    expected: Numbers;
  };
  /**
   * The losses of a model that computes its own loss. It includes a loss of its first stage and is weighted by tokens.
   */
  ownLoss: {
    piped: Numbers;
    alone: Numbers;
  };
  /** The names of the gradients that exist when the first stage is frozen. */
  frozen: string[];
  /**
   * The losses of a further step: in the same pipeline, in a pipeline with another cut that loaded the checkpoint, and
   * on one rank.
   */
  checkpoints: {
    on: number;
    elsewhere: number;
    alone: number;
  };
  /** The names of the parameters in the optimizer's state dict, and losses after it is loaded. */
  states: {
    saved: string[];
    reloaded: number;
    on: number;
  };
  /** The errors about losses that are not finite, by the module whose weight is not finite. */
  faults: Record<string, string[]>;
  /** The norms of gradients in the pipeline and on one rank, by what is frozen and by schedule. */
  sparse: Record<string, Numbers>;
  /** The number of plans made by steps 3 and later. */
  plans: number;
  errors: Record<string, string>;
}

const cut = ['blocks.2'];
const options = { schedule: '1f1b', cut, microbatches: 2, loss: languageLoss } as const;

interface Batch {
  readonly x: Tensor;
  readonly y: Tensor;
}

function batch(step: number, rows = 4): Batch {
  const { ids, targets } = languageBatch(step, rows);
  return { x: tensor(ids, 'i32'), y: tensor(targets, 'i32') };
}

type Piped = PlannedModelWithLoss<Language, [ids: Tensor], Tensor, [targets: Tensor]>;

async function piped(changes: Partial<PipelineOptions> = {}): Promise<Piped> {
  manualSeed(3);
  return parallelize(new Language(), pipeline({ ...options, ...changes }));
}

function alone(): Language {
  manualSeed(3);
  return new Language();
}

const adam = (model: nn.Module): optim.AdamW => new optim.AdamW(model.parameters(), { lr: 0.01 });

async function evaluation(): Promise<Behaviour['evaluation']> {
  const [model, reference] = [await piped(), alone()];
  const { x, y } = batch(0, 3);
  const both = async (): Promise<number[]> => {
    const loss = noGrad(() => model.forward(x, y));
    const expected = noGrad(() => languageLoss(reference.forward(x), y));
    return [await loss.item(), await expected.item()];
  };
  const before = await both();
  const optimizers = [adam(model.module), adam(reference)];
  model.forward(concat([x, x], 0), concat([y, y], 0)).backward();
  languageLoss(reference.forward(x), y).backward();
  for (const optimizer of optimizers) await optimizer.step();
  const after = await both();
  const plain = await piped();
  const logits = noGrad(() => plain.forward(x));
  const own = await messageOf(async () => logits.data());
  const shared = await (await onEveryRank(logits)).data();
  const expected = await noGrad(() => alone().forward(x)).data();
  return { before, after, outputs: { own, shared: values(shared), alone: values(expected) } };
}

/** Each id is the one that the model finds likeliest after those before it. */
async function generation(): Promise<Behaviour['generation']> {
  const generate = async (next: (ids: Tensor) => Promise<Tensor>): Promise<number[]> => {
    const ids = [1];
    for (let length = 2; length <= 5; length++) {
      const logits = await next(tensor([ids], 'i32'));
      ids.push(
        await logits
          .slice(1, ids.length - 1, ids.length)
          .argMax()
          .item(),
      );
    }
    return ids;
  };
  const [model, reference] = [await piped(), alone()];
  model.module.eval();
  return {
    piped: await generate((ids) => onEveryRank(noGrad(() => model.forward(ids)))),
    alone: await generate(async (ids) => noGrad(() => reference.forward(ids))),
  };
}

async function passes(): Promise<Behaviour['passes']> {
  const gradientsOf = async (model: nn.Module): Promise<number[]> => {
    const sums: number[] = [];
    for (const parameter of model.parameters()) {
      const { grad } = parameter;
      if (grad !== null) sums.push(await grad.square().sum().item());
    }
    return sums;
  };
  const [first, second] = [batch(0), batch(1)];
  const apart = await piped();
  apart.forward(first.x, first.y).backward();
  apart.forward(second.x, second.y).backward();
  const together = await piped();
  together.forward(first.x, first.y).add(together.forward(second.x, second.y)).backward();
  const reference = alone();
  for (const { x, y } of [first, second]) languageLoss(reference.forward(x), y).backward();
  const held = together.module.parameters().map(({ grad }) => grad !== null);
  const expected = await gradientsOf(reference);
  return {
    apart: await gradientsOf(apart.module),
    together: await gradientsOf(together.module),
    alone: expected.filter((_, index) => held[index]),
  };
}

async function scaled(): Promise<Behaviour['scaled']> {
  const model = await piped();
  const optimizer = adam(model.module);
  const scaler = new optim.DynamicLossScaler({ initialScale: 2 ** 127 });
  const step = async (factor: number): Promise<boolean> => {
    optimizer.zeroGrad();
    const { x, y } = batch(0);
    scaler.scale(model.forward(x, y).mul(factor)).backward();
    const taken = await scaler.step(optimizer);
    scaler.update();
    return taken;
  };
  const overflow = await step(1e6);
  const between = scaler.lossScale;
  const finite = await step(1e-6);
  return { overflow, finite, scales: [between, scaler.lossScale] };
}

/** A model with batch norms in both stages and layers without parameters between them. */
class Norms extends nn.Module {
  readonly layers = new nn.Sequential(
    new nn.Linear(3, 4),
    new nn.BatchNorm1d(4),
    new nn.ReLU(),
    new nn.Linear(4, 4),
    new nn.BatchNorm1d(4),
  );

  /** Shape: x [B, 3] -> [B, 4]. */
  forward(x: Tensor): Tensor {
    return this.layers.forward(x);
  }
}

async function retained(): Promise<Behaviour['retained']> {
  const [model, reference] = [await piped(), alone()];
  const { x, y } = batch(0);
  const outputsIn = (module: Language): Map<string, Tensor[]> => {
    const found = new Map<string, Tensor[]>();
    for (const [index, block] of [...module.blocks].entries()) {
      block.registerForwardHook((_module, _inputs, output) => {
        const path = `blocks.${index}`;
        if (output instanceof Tensor)
          found.set(path, [...(found.get(path) ?? []), output.retain()]);
        return undefined;
      });
    }
    return found;
  };
  const read = async (
    outputs: ReadonlyMap<string, Tensor[]>,
  ): Promise<Record<string, number[]>> => {
    const own: Record<string, number[]> = {};
    for (const [path, tensors] of outputs) {
      const isHere = ({ node: { value } }: Tensor): boolean =>
        value !== null && value.kind !== 'freed';
      if (!tensors.every(isHere)) continue;
      own[path] = values(await concat(tensors, 0).data());
    }
    return own;
  };
  const [own, expected] = [outputsIn(model.module), outputsIn(reference)];
  const loss = model.forward(x, y);
  loss.backward();
  await loss.item();
  const whole = languageLoss(reference.forward(x), y);
  await whole.item();
  return { piped: await read(own), alone: await read(expected) };
}

async function buffers(): Promise<Behaviour['buffers']> {
  const x = tensor([1, 2, 3, 4].map((row) => [row, row * row, 1 / row]));
  const loss = (output: Tensor): Tensor => output.square().mean();
  manualSeed(4);
  const model = await parallelize(
    new Norms(),
    pipeline({ schedule: 'gpipe', cut: ['layers.2'], microbatches: 2, loss }),
  );
  manualSeed(4);
  const reference = new Norms();
  model.forward(x).backward();
  for (const part of x.chunk(2)) loss(reference.forward(part)).backward();
  await adam(model.module).step();
  await adam(reference).step();
  const read = async (module: nn.Module): Promise<number[]> => {
    const found: number[] = [];
    for (const [, buffer] of module.namedBuffers()) found.push(...values(await buffer.data()));
    return found;
  };
  return { piped: await read(model.module), alone: await read(reference) };
}

/** Trains with microbatches of different sizes, each normalised by itself. */
async function deferred(): Promise<Behaviour['deferred']> {
  const x = tensor([1, 2, 3, 4, 7].map((row) => [row, row * row, 1 / row]));
  const loss = (output: Tensor): Tensor => output.square().mean();
  manualSeed(4);
  const options = { schedule: '1f1b', cut: ['layers.2'], microbatches: 2, loss } as const;
  const model = await parallelize(new Norms(), pipeline({ ...options, deferredBatchNorm: true }));
  model.forward(x).backward();
  await adam(model.module).step();
  const piped: number[] = [];
  for (const [, buffer] of model.module.namedBuffers()) piped.push(...values(await buffer.data()));
  manualSeed(4);
  const [first, second] = [new nn.Linear(3, 4), new nn.Linear(4, 4)];
  const early = first.forward(x);
  const parts = [early.slice(0, 0, 3), early.slice(0, 3)].map((part) =>
    new nn.BatchNorm1d(4).forward(part),
  );
  const expected: number[] = [];
  for (const seen of [early, second.forward(concat(parts).relu())]) {
    const [mean, variance] = [seen.mean(0).mul(0.1), seen.variance(0).mul(0.1).add(0.9)];
    expected.push(...values(await mean.data()), ...values(await variance.data()), 1);
  }
  return { piped, expected };
}

/** A model that returns its loss: of the classes of tokens, and a penalty from its first stage. */
class OwnLoss extends nn.Module {
  readonly inner = new Language();

  /** Shape: ids, targets i32 [B, T] -> []. */
  forward(ids: Tensor, targets: Tensor): Tensor {
    const penalty = this.inner.tokens.forward(ids).square().mean();
    return languageLoss(this.inner.forward(ids), targets).add(penalty.mul(0.1));
  }
}

async function ownLoss(): Promise<Behaviour['ownLoss']> {
  const weight = (_: unknown, y: unknown): Tensor => countOf(y).add(1);
  manualSeed(5);
  const model = await parallelize(
    new OwnLoss(),
    pipeline({ schedule: '1f1b', cut: ['inner.blocks.2'], microbatches: 2, weight }),
  );
  manualSeed(5);
  const reference = new OwnLoss();
  const [own, other] = [adam(model.module), adam(reference)];
  const found: { piped: number[]; alone: number[] } = { piped: [], alone: [] };
  for (let step = 0; step < 2; step++) {
    const { x, y } = batch(step);
    own.zeroGrad();
    other.zeroGrad();
    const loss = model.forward(x, y);
    loss.backward();
    await own.step();
    found.piped.push(await loss.item());
    const parts = [0, 2].map(
      (start) => [x.slice(0, start, start + 2), y.slice(0, start, start + 2)] as const,
    );
    const weights = parts.map(([, part]) => countOf(part).add(1));
    const all = weights.reduce((sum, each) => sum.add(each));
    const losses = parts.map(([ids, part], index) => {
      const share = weights[index] ?? all;
      return reference.forward(ids, part).mul(share.div(all));
    });
    const expected = losses.reduce((sum, each) => sum.add(each));
    expected.backward();
    await other.step();
    found.alone.push(await expected.item());
  }
  return found;
}

function countOf(y: unknown): Tensor {
  if (!(y instanceof Tensor)) throw new TypeError('targets are a tensor');
  return y.ge(5).to('f32').sum();
}

async function frozen(): Promise<string[]> {
  manualSeed(3);
  const inner = new Language();
  for (const [name, parameter] of inner.namedParameters()) {
    if (/tokens|positions|blocks\.[01]/.test(name)) parameter.requiresGrad_(false);
  }
  const model = await parallelize(inner, pipeline(options));
  const { x, y } = batch(0);
  const loss = model.forward(x, y);
  loss.backward();
  await loss.item();
  return model.module
    .namedParameters()
    .flatMap(([name, { grad }]) => (grad === null ? [] : [name]));
}

async function trainOnce(model: Piped, optimizer: optim.AdamW, step: number): Promise<number> {
  const { x, y } = batch(step);
  optimizer.zeroGrad();
  const loss = model.forward(x, y);
  loss.backward();
  await optimizer.step();
  return loss.item();
}

async function saveAndLoad(
  directory: string,
  group: ProcessGroup,
): Promise<Behaviour['checkpoints']> {
  const model = await piped();
  const optimizer = adam(model.module);
  await trainOnce(model, optimizer, 0);
  const contents = { model: model.module, optimizer, step: 1 };
  const saved = await checkpoints.save(directory, contents, { group });
  await trainOnce(model, optimizer, 1);
  const on = await trainOnce(model, optimizer, 2);
  const load = async (module: nn.Module, into: optim.AdamW): Promise<void> => {
    const checkpoint = await checkpoints.load(saved);
    await checkpoints.loadModel(checkpoint, module);
    await checkpoints.loadOptimizer(checkpoint, module, into);
  };
  const other = await piped({ cut: ['blocks.1'] });
  const others = adam(other.module);
  await load(other.module, others);
  await trainOnce(other, others, 1);
  const elsewhere = await trainOnce(other, others, 2);
  const reference = alone();
  const own = adam(reference);
  await load(reference, own);
  let last = Number.NaN;
  for (const step of [1, 2]) {
    const { x, y } = batch(step);
    own.zeroGrad();
    const loss = languageLoss(reference.forward(x), y);
    loss.backward();
    await own.step();
    last = await loss.item();
  }
  return { on, elsewhere, alone: last };
}

async function states(): Promise<Behaviour['states']> {
  const model = await piped();
  const optimizer = adam(model.module);
  await trainOnce(model, optimizer, 0);
  const dict = await optimizer.stateDict();
  const weights = await model.module.stateDict();
  const other = await piped({ cut: ['blocks.3'] });
  const others = adam(other.module);
  await other.module.loadStateDict(weights);
  others.loadStateDict(dict);
  await trainOnce(model, optimizer, 1);
  await trainOnce(other, others, 1);
  const on = await trainOnce(model, optimizer, 2);
  return { saved: Object.keys(dict.state), reloaded: await trainOnce(other, others, 2), on };
}

async function plans(): Promise<number> {
  const model = await piped();
  const optimizer = adam(model.module);
  for (let step = 0; step < 2; step++) await trainOnce(model, optimizer, step);
  const before = statistics().plansMade;
  for (let step = 2; step < 4; step++) await trainOnce(model, optimizer, step);
  return statistics().plansMade - before;
}

/**
 * A model that uses one weight twice in its first stage. Two of its modules have no parameters, and others may be
 * frozen.
 */
class Sparse extends nn.Module {
  readonly twice = new nn.Linear(3, 3);
  readonly tanh = new nn.Tanh();
  readonly relu = new nn.ReLU();
  readonly last = new nn.Linear(3, 2);

  /** Shape: x [B, 3] -> [B, 2]. */
  forward(x: Tensor): Tensor {
    const hidden = this.twice.forward(this.twice.forward(x).relu());
    return this.last.forward(this.relu.forward(this.tanh.forward(hidden)).mul(2));
  }
}

async function sparse(): Promise<Behaviour['sparse']> {
  const found: Behaviour['sparse'] = {};
  const x = tensor([1, -2, 3, 0.5].map((row) => [row, row * row, 1 / row]));
  const loss = (output: Tensor): Tensor => output.square().mean();
  for (const frozenStage of [null, 'last', 'twice']) {
    for (const schedule of ['interleaved1f1b', 'zbv'] as const) {
      const build = (): Sparse => {
        manualSeed(6);
        const model = new Sparse();
        for (const [name, parameter] of model.namedParameters()) {
          if (frozenStage !== null && name.startsWith(frozenStage)) parameter.requiresGrad_(false);
        }
        return model;
      };
      const strategy = pipeline({
        schedule,
        microbatches: 2,
        cut: ['tanh', 'relu', 'last'],
        loss,
      });
      const model = await parallelize(build(), strategy);
      const reference = build();
      model.forward(x).backward();
      loss(reference.forward(x)).backward();
      const own = await optim.totalGradNorm(model.module.parameters()).item();
      const expected = await optim.totalGradNorm(reference.parameters()).item();
      found[`${frozenStage} ${schedule}`] = [own, expected];
    }
  }
  return found;
}

/** The warnings of each rank. */
const said = new WeakMap<object, string[]>();

function noteWarning(message: unknown): void {
  said.get(currentSession())?.push(String(message));
}

async function faults(): Promise<Behaviour['faults']> {
  const found: Behaviour['faults'] = {};
  for (const path of ['tokens', 'blocks.1.up', 'blocks.2.up', 'head']) {
    said.set(currentSession(), []);
    const model = await piped({ cut: ['blocks.1', 'blocks.2', 'blocks.3'], schedule: 'zbv' });
    for (const [name, parameter] of model.module.namedParameters()) {
      if (name === `${path}.weight`) noGrad(() => parameter.assign(parameter.mul(Number.NaN)));
    }
    const optimizer = adam(model.module);
    for (const step of [0, 1]) await trainOnce(model, optimizer, step);
    found[path] = said.get(currentSession()) ?? [];
  }
  return found;
}

async function errors(rank: number): Promise<Record<string, string>> {
  const { x, y } = batch(0);
  const model = await piped();
  const plan = (changes: Partial<PipelineOptions>): Promise<string> =>
    messageOf(() => parallelize(alone(), pipeline({ ...options, ...changes })));
  manualSeed(3);
  const outside = await parallelize(
    new Language(),
    pipeline({ schedule: '1f1b', cut, microbatches: 2 }),
  );
  const twice = model.forward(x, y);
  twice.backward();
  await twice.item();
  const fed = await piped();
  const feeder = adam(fed.module);
  return {
    'a forward pass of the module itself': await messageOf(() => model.module.forward(x).data()),
    'a loss that is built outside': await messageOf(async () =>
      languageLoss(outside.forward(x), y),
    ),
    'a loss that is read before backward': await messageOf(() => model.forward(x, y).item()),
    'a second backward': await messageOf(async () => twice.backward()),
    'an input that requires a gradient': await messageOf(async () =>
      model.forward(tensor([[1], [2]]).requiresGrad_(), y),
    ),
    'more stages than cuts': await plan({ cut: [] }),
    'a schedule without backwards': await plan({ schedule: 'forwardOnly' }),
    'a cut inside a checkpoint': await cutInCheckpoint(x, y),
    'a cut that is no module': await plan({ cut: ['blocks.9'] }),
    'cuts in another order': await plan({
      cut: ['blocks.2', 'blocks.1', 'head'],
      schedule: 'interleaved1f1b',
    }),
    'microbatches that a schedule does not take': await plan({
      cut: ['blocks.1', 'blocks.2', 'blocks.3'],
      schedule: 'dualPipeV',
      microbatches: 1,
    }),
    'ranks that cut at other modules': await plan({ cut: [`blocks.${rank + 1}`] }),
    'ranks with other schedules': await plan({ schedule: rank === 0 ? '1f1b' : 'gpipe' }),
    'stages that send each other other shapes': await stagesThatDiffer(rank, x, y),
    'ranks that are given different batches': await messageOf(() => trainOnce(fed, feeder, rank)),
    'ranks whose last batches have other numbers of rows, both fewer than microbatches':
      await lastBatches(rank),
  };
}

async function lastBatches(rank: number): Promise<string> {
  const model = await piped({ microbatches: 4 });
  const optimizer = adam(model.module);
  await trainOnce(model, optimizer, 0);
  const { x, y } = batch(1);
  model.forward(x.slice(0, 0, rank + 1), y.slice(0, 0, rank + 1)).backward();
  return messageOf(() => optimizer.step());
}

/** A module that accepts inputs of any shape. */
class Factor extends nn.Module {
  readonly factor = new nn.Parameter(Float32Array.of(2), []);

  /** Shape: x N -> N. */
  forward(x: Tensor): Tensor {
    return x.mul(this.factor);
  }
}

/** A model whose first stage has an output of another shape on each rank. */
class Differing extends nn.Module {
  readonly first = new nn.Linear(5, 5);
  readonly second = new Factor();
  readonly #width: number;

  constructor(width: number) {
    super();
    this.#width = width;
  }

  /** Shape: x [B, 5] -> [B, 5]. */
  forward(x: Tensor): Tensor {
    const hidden = this.first.forward(x).slice(1, 0, this.#width);
    return this.second.forward(hidden).pad([0, 0], [0, 5 - this.#width]);
  }
}

async function stagesThatDiffer(rank: number, x: Tensor, y: Tensor): Promise<string> {
  const strategy = pipeline({ ...options, cut: ['second'], loss: nn.functional.mseLoss });
  const model = await parallelize(new Differing(4 - rank), strategy);
  const optimizer = adam(model.module);
  model.forward(x.to('f32'), y.to('f32')).backward();
  return messageOf(() => optimizer.step());
}

/** A model that recomputes two of its blocks in backward. */
class Checkpointed extends nn.Module {
  readonly blocks = new nn.Sequential(new nn.Linear(5, 5), new nn.Linear(5, 5));

  /** Shape: x [B, 5] -> [B, 5]. */
  forward(x: Tensor): Tensor {
    return nn.checkpoint(() => this.blocks.forward(x));
  }
}

async function cutInCheckpoint(x: Tensor, y: Tensor): Promise<string> {
  const loss = (output: Tensor, targets: Tensor): Tensor => output.sub(targets).square().mean();
  const strategy = pipeline({ ...options, cut: ['blocks.1'], loss });
  const model = await parallelize(new Checkpointed(), strategy);
  return messageOf(async () => model.forward(x.to('f32'), y.to('f32')));
}

async function messageOf(body: () => Promise<unknown>): Promise<string> {
  try {
    await body();
  } catch (error) {
    if (ShardwiseError.isInstance(error)) return `${error.code}: ${error.message}`;
    throw error;
  }
  return 'no error';
}

function values(data: ArrayLike<number | bigint>): number[] {
  return Array.from(data, Number);
}

async function observe({ rank, group }: RankInThread, directory: string): Promise<Behaviour> {
  return {
    evaluation: await evaluation(),
    generation: await generation(),
    passes: await passes(),
    scaled: await scaled(),
    buffers: await buffers(),
    retained: await retained(),
    deferred: await deferred(),
    ownLoss: await ownLoss(),
    frozen: await frozen(),
    checkpoints: await saveAndLoad(directory, group),
    states: await states(),
    faults: await faults(),
    sparse: await sparse(),
    plans: await plans(),
    errors: await errors(rank),
  };
}

function expectClose(found: readonly number[], expected: readonly number[]): void {
  expect(found).toHaveLength(expected.length);
  for (const [index, value] of expected.entries()) expect(found[index]).toBeCloseTo(value, 4);
}

describe('a pipeline of two ranks', () => {
  let ranks: readonly Behaviour[] = [];
  let directory = '';

  beforeAll(async () => {
    directory = await mkdtemp(join(tmpdir(), 'pipeline-'));
    const options = { axes: [{ name: 'pp', size: 2 }], ...onCpu };
    vi.spyOn(console, 'warn').mockImplementation(noteWarning);
    ranks = await onRanks(2, (place) => observe(place, directory), options);
    vi.restoreAllMocks();
  });

  afterAll(() => rm(directory, { recursive: true, force: true }));

  it('a pipeline of two ranks gives every rank the loss of an evaluation, also of an odd number of rows', () => {
    for (const { evaluation } of ranks) {
      const [before, expected] = evaluation.before;
      expect(before).toBeCloseTo(expected ?? Number.NaN, 5);
      const [after, later] = evaluation.after;
      expect(after).toBeCloseTo(later ?? Number.NaN, 4);
      expect(after).toBeLessThan(before ?? Number.NaN);
    }
  });

  it('a pipeline of two ranks has outputs on the rank of their stage, and on all by one call', () => {
    const [first, last] = ranks.map(({ evaluation }) => evaluation.outputs.own);
    expect(first).toMatch(/^TENSOR_STATE: .*rank 1 of 'pp' has it.*onEveryRank/);
    expect(last).toBe('no error');
    for (const { evaluation } of ranks) {
      expectClose(evaluation.outputs.shared, evaluation.outputs.alone);
    }
  });

  it('generates what one rank does, in passes of growing length', () => {
    for (const { generation } of ranks) {
      expect(generation.piped).toHaveLength(5);
      expect(generation.piped).toEqual(generation.alone);
    }
  });

  it('a pipeline of two ranks adds up gradients of several passes, whether their losses are added or not', () => {
    for (const { passes } of ranks) {
      expect(passes.alone.length).toBeGreaterThan(10);
      expectClose(passes.apart, passes.alone);
      expectClose(passes.together, passes.alone);
    }
  });

  it('skips a step that overflows on all ranks alike', () => {
    for (const { scaled } of ranks) {
      expect(scaled).toMatchObject({ overflow: false, finite: true });
      expect(scaled.scales).toEqual(ranks[0]?.scaled.scales);
    }
  });

  it('a pipeline of two ranks has the same running means on all ranks as one that accumulates the microbatches', () => {
    for (const { buffers } of ranks) expectClose(buffers.piped, buffers.alone);
  });

  it('a pipeline of two ranks has outputs that a hook retains on the rank of their stage alone', () => {
    expect(ranks.map(({ retained }) => Object.keys(retained.piped))).toEqual([
      ['blocks.0', 'blocks.1'],
      ['blocks.2', 'blocks.3'],
    ]);
    for (const { retained } of ranks) {
      for (const [path, found] of Object.entries(retained.piped)) {
        expectClose(found, retained.alone[path] ?? []);
      }
    }
  });

  it('moves running statistics once, by those of all rows that came to a norm, where these are deferred', () => {
    for (const { deferred } of ranks) expectClose(deferred.piped, deferred.expected);
  });

  it('a pipeline of two ranks takes the loss of the model itself, with a part from its first stage and weights by tokens', () => {
    for (const { ownLoss } of ranks) expectClose(ownLoss.piped, ownLoss.alone);
  });

  it('a pipeline of two ranks sends no gradients to a stage that is frozen', () => {
    const [first, second] = ranks.map(({ frozen }) => frozen);
    expect(first).toEqual([]);
    expect(second).toContain('head.weight');
  });

  it('saves checkpoints that other cuts and one rank load', () => {
    for (const { checkpoints } of ranks) {
      expect(checkpoints.elsewhere).toBeCloseTo(checkpoints.on, 5);
      expect(checkpoints.alone).toBeCloseTo(checkpoints.on, 4);
    }
  });

  it('a pipeline of two ranks gives every rank the states of all parameters in a state dict', () => {
    for (const { states } of ranks) {
      expect(states.saved).toHaveLength(29);
      expect(states.reloaded).toBeCloseTo(states.on, 5);
    }
  });

  it('a pipeline of two ranks names the first stage with a value that is not finite, once, where the loss is not', () => {
    const [first, second] = ranks.map(({ faults }) => faults);
    expect(first).toEqual({
      tokens: [
        expect.stringMatching(/loss of a pipeline is NaN: .* of stage 0 on rank 0 of 'pp' \(/),
      ],
      'blocks.1.up': [
        expect.stringMatching(
          /stage 1 on rank 1 of 'pp', which begins at 'blocks.1' \(its output for microbatch 0\)/,
        ),
      ],
      'blocks.2.up': [expect.stringMatching(/stage 2 on rank 1 of 'pp'/)],
      head: [
        expect.stringMatching(/stage 3 on rank 0 of 'pp', which begins at 'blocks.3' \(the loss\)/),
      ],
    });
    expect(Object.values(second ?? {}).flat()).toEqual([]);
  });

  it('a pipeline of two ranks takes a weight that a stage uses twice, stages without parameters, and frozen ones', () => {
    for (const { sparse } of ranks) {
      expect(Object.keys(sparse)).toHaveLength(6);
      for (const [name, [own, expected]] of Object.entries(sparse)) {
        expect(expected, name).toBeGreaterThan(0.01);
        expect(own, name).toBeCloseTo(expected ?? Number.NaN, 4);
      }
    }
  });

  it('a pipeline of two ranks makes no plan after the first steps', () => {
    for (const rank of ranks) expect(rank.plans).toBe(0);
  });

  it.each([
    [
      'ranks that are given different batches',
      /^COLLECTIVE_MISMATCH: .*the data of the batch differs between rank 1 and rank 0.*over the ranks of dp/,
    ],
    [
      'ranks that cut at other modules',
      /^COLLECTIVE_MISMATCH: .*rank 1 differs from rank 0: rank 0 has the step runStages .*cut \[blocks.1\].*same strategy and options/,
    ],
    [
      'a forward pass of the module itself',
      /^TENSOR_STATE: a parameter of a pipeline, of shape .*: only rank [01] of 'pp' has it.*Call forward\(\) of what parallelize\(\) returned/,
    ],
    ['a loss that is built outside', /^CONFIG: .*an output of shape .*Give pipeline\(\) a loss/],
    ['a loss that is read before backward', /^TENSOR_STATE: .*Call loss.backward\(\) first/],
    [
      'a second backward',
      /^TENSOR_STATE: backward\(\) of the loss of a pipeline: it was called before/,
    ],
    [
      'ranks whose last batches have other numbers of rows, both fewer than microbatches',
      /^COLLECTIVE_MISMATCH: .*the shape of the batch differs between rank 1 and rank 0/,
    ],
    ['an input that requires a gradient', /^CONFIG: .*whose gradient would not arrive/],
    ['more stages than cuts', /^LAYOUT: a pipeline of 1 stages on 2 ranks: 0 cuts/],
    [
      'a schedule without backwards',
      /^CONFIG: .*it has only forward passes, so nothing would be trained/,
    ],
    [
      'a cut inside a checkpoint',
      /^LAYOUT: a pipeline cut at 'blocks.1': it is called inside a checkpoint/,
    ],
    ['a cut that is no module', /^LAYOUT: a pipeline cut at 'blocks.9': no module of this name/],
    [
      'cuts in another order',
      /^LAYOUT: a pipeline cut at 'blocks.1': it does not come after 'blocks.2'/,
    ],
    [
      'ranks with other schedules',
      /^COLLECTIVE_MISMATCH: .*rank 1 differs from rank 0 at line 2: rank 0 has the actions 1F0 /,
    ],
    [
      'stages that send each other other shapes',
      /^COLLECTIVE_MISMATCH: .*the forward pass of rank 1 would send .* of other shapes/,
    ],
    ['microbatches that a schedule does not take', /^CONFIG: the schedule dualPipeV/],
  ])('says what is wrong with %s', (name, message) => {
    for (const { errors } of ranks) expect(errors[name]).toMatch(message);
  });
});
