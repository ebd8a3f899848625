// Mistakes that used to go unnoticed. Each of these once gave wrong numbers, lost work or said nothing. Each now works,
// or is an error that says what to do.
import { mkdtemp } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as nextTurn } from 'node:timers/promises';
import { inspect } from 'node:util';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { cpu } from '@shardwise/backend-cpu';
import { singleGroup } from '@shardwise/collectives';
import {
  type Consistency,
  createParameterServer,
  parameterServer,
} from '@shardwise/parameter-server';
import {
  applyPlan,
  constructSharded,
  countModelCosts,
  dataParallel,
  ddp,
  distributeTensor,
  fsdp,
  OffloadedOptimizer,
  OptimisticOptimizer,
  parallelize,
  pipeline,
  planFor,
  readSchedule,
  stepKinds,
  stepsOf,
  vocabParallelCrossEntropy,
  zero,
} from '@shardwise/strategies';
import { interpreter } from '@shardwise/testing';
import { onRanks } from '@shardwise/testing/node';
import * as sw from '@shardwise/core';
import type {
  Node,
  OptimizerInput,
  OptimizerSettings,
  RequestConnection,
  UpdateRule,
} from '@shardwise/core/extend';
import { checkpoints } from 'shardwise';
import { beforeEach, describe, expect, it, vi } from 'vitest';

beforeEach(() => sw.setRank({ device: interpreter() }));

describe('parameter servers', () => {
  /** Starts servers in this thread. This thread is the first of two workers in the mesh. */
  const served = async (consistency: Consistency): Promise<sw.nn.Linear> => {
    const optimizers = {
      SGD: (groups: OptimizerInput<OptimizerSettings>) => new sw.optim.SGD(groups),
    };
    const server = await createParameterServer({ server: 0, optimizers });
    const client = { number: 0, closed: new AbortController().signal };
    const connection: RequestConnection = {
      address: 'here',
      request: async (parts, read) => read(await server.handler(parts, client)),
      close: () => undefined,
    };
    const servers = { size: 1, connect: async () => connection, whenClosed: () => undefined };
    const orderCalls = (): void => {};
    const group = Object.assign(Object.create(singleGroup()), { rank: 0, size: 2, orderCalls });
    sw.setRank({ device: interpreter(), mesh: new sw.LineMesh('dp', group) });
    const model = new sw.nn.Linear(2, 1);
    const parallel = await parallelize(model, parameterServer({ servers, consistency }));
    parallel
      .forward(sw.ones([1, 2]))
      .sum()
      .backward();
    return model;
  };

  it('clipping before the servers average gradients would clip by the norm of one worker', async () => {
    const synchronous = await served('synchronous');
    const clip = (model: sw.nn.Linear) => () => sw.optim.clipGradNorm(model.parameters(), 1);
    expect(clip(synchronous)).toThrow(/of this rank alone, which parameter servers average/);
    expect(clip(await served('asynchronous'))).not.toThrow();
  });

  it('weights that are loaded on a worker would be lost with the next step', async () => {
    const model = await served('asynchronous');
    const saved = await new sw.nn.Linear(2, 1).stateDict();
    await expect(model.loadStateDict(saved)).rejects.toThrow(/Load weights before parallelize/);
  });

  it('the states of an optimizer on servers are not saved as none', async () => {
    const optimizer = new sw.optim.SGD((await served('asynchronous')).parameters(), { lr: 1 });
    await expect(optimizer.stateDict()).rejects.toThrow(/saved where they lie/);
  });
});

describe('pipelines', () => {
  const forward = async (loss?: (y: sw.Tensor) => sw.Tensor): Promise<sw.Tensor> => {
    sw.setRank({ device: interpreter(), mesh: new sw.LineMesh('pp', singleGroup()) });
    const layers = new sw.nn.Sequential(new sw.nn.Linear(2, 2), new sw.nn.Linear(2, 1));
    const options = { schedule: 'interleaved1f1b', microbatches: 2, cut: ['1'] } as const;
    const x = sw.tensor([1, 2, 3, 4]).reshape([2, 2]);
    if (loss === undefined) return (await parallelize(layers, pipeline(options))).forward(x);
    return (await parallelize(layers, pipeline({ ...options, loss }))).forward(x);
  };

  it('a loss that is built outside of the stages is refused: it would not reach them', async () => {
    await expect(forward()).rejects.toThrow(/an output of shape .*Give pipeline\(\) a loss/);
  });

  it('a batch of ones passes through the stages, and is not taken for something that each rank makes for itself', async () => {
    sw.setRank({ device: interpreter(), mesh: new sw.LineMesh('pp', singleGroup()) });
    const layers = new sw.nn.Sequential(new sw.nn.Linear(2, 2), new sw.nn.Linear(2, 1));
    const options = { schedule: 'interleaved1f1b', microbatches: 2, cut: ['1'] } as const;
    const loss = (y: sw.Tensor): sw.Tensor => y.sum();
    const parallel = await parallelize(layers, pipeline({ ...options, loss }));
    parallel.forward(sw.ones([2, 2])).backward();
    const [step] = stepsOf(parallel.plan, stepKinds.runStages);
    expect(step?.data.edges).toEqual([{ from: 0, to: 1, gradient: true, bytes: 2 * 4 }]);
  });

  it('stages cannot have the same time where nobody has measured any', () => {
    const model = new sw.nn.Sequential(new sw.nn.Linear(2, 2), new sw.nn.Linear(2, 1));
    const loss = (y: sw.Tensor): sw.Tensor => y.sum();
    const costs = countModelCosts(model, [sw.zeros([2, 2])], { loss });
    const strategy = pipeline({ microbatches: 2, cut: 'time', costs, loss });
    const axes = [{ name: 'pp', size: 2 }];
    expect(() => strategy.plan({ parameters: [] }, axes)).toThrow(
      /without times.*measureModelCosts/,
    );
  });

  it('a loss that is NaN says in which stage that began', async () => {
    const warned = vi.spyOn(console, 'warn').mockReturnValue();
    const loss = await forward((y) => y.div(0).sub(y.div(0)).sum());
    loss.backward();
    expect(await loss.item()).toBeNaN();
    expect(warned).toHaveBeenCalledExactlyOnceWith(
      expect.stringContaining("begins at '1' (the loss)"),
    );
    warned.mockRestore();
  });

  it('a training pass that is given no targets for its loss is refused, and not an evaluation', async () => {
    const loss = (y: sw.Tensor, targets: sw.Tensor): sw.Tensor => y.sub(targets).square().mean();
    sw.setRank({ device: interpreter(), mesh: new sw.LineMesh('pp', singleGroup()) });
    const strategy = pipeline({ schedule: '1f1b', microbatches: 1, cut: [], loss });
    const model = await parallelize(new sw.nn.Linear(2, 1), strategy);
    const x = sw.tensor([[1, 2]]);
    expect(() => model.forward(x)).toThrow(/whose loss takes targets: 1 input.*use noGrad\(\)/);
    expect(sw.noGrad(() => model.forward(x)).shape).toEqual([1, 1]);
    model.module.eval();
    expect(() => model.forward(x).mean().backward()).toThrow('outside of the stages');
  });

  it('what is asked for and not awaited before the next pass is computed of its own pass, and so are updates', async () => {
    const train = async (awaits: boolean): Promise<unknown> => {
      sw.manualSeed(3);
      sw.setRank({ device: interpreter(), mesh: new sw.LineMesh('pp', singleGroup()) });
      const layers = new sw.nn.Sequential(new sw.nn.Linear(2, 2), new sw.nn.Linear(2, 1));
      const loss = (y: sw.Tensor): sw.Tensor => y.square().mean();
      const options = { schedule: 'interleaved1f1b', microbatches: 2, cut: ['1'], loss } as const;
      const model = await parallelize(layers, pipeline(options));
      const optimizer = new sw.optim.SGD(layers.parameters(), { lr: 0.01, momentum: 0.9 });
      const reads: Promise<unknown>[] = [];
      for (const step of [1, 2, 3, 4]) {
        optimizer.zeroGrad();
        const own = model.forward(sw.tensor([1, 2, 3, 4]).reshape([2, 2]));
        own.backward();
        reads.push(own.mul(step).item());
        const stepped = optimizer.step();
        if (awaits) await Promise.all([...reads, stepped]);
        else if (step === 2) await own.item();
        reads.push(stepped, own.mul(2).item());
      }
      const weights = layers.parameters().map((parameter) => parameter.data());
      return [await Promise.all(reads), await Promise.all(weights)];
    };
    expect(await train(false)).toEqual(await train(true));
  });

  it('the loss of a pass is not there before its backward()', async () => {
    const loss = await forward((y) => y.square().mean());
    await expect(loss.item()).rejects.toThrow('Call loss.backward() first');
    loss.backward();
    expect(await loss.item()).toBeGreaterThanOrEqual(0);
    expect(() => loss.backward()).toThrow('it was called before');
  });
});

describe('experts', () => {
  const balance = { kind: 'megatron', coefficient: 0.01 } as const;

  it('are not left without balance where the loss forgets it', async () => {
    const moe = new sw.nn.MixtureOfExperts(2, 4, 3, { balance });
    const optimizer = new sw.optim.SGD(moe.parameters(), { lr: 0.1 });
    moe
      .forward(sw.ones([4, 2]))
      .sum()
      .backward();
    await optimizer.step();
    expect(() => moe.forward(sw.ones([4, 2]))).toThrow('loss.add(nn.auxiliaryLoss(model))');
    sw.nn.auxiliaryLoss(moe);
    // A forward pass that trains nothing has no auxiliary loss.
    await sw.noGrad(() => moe.forward(sw.ones([4, 2]))).realize();
    moe.eval();
    await moe.forward(sw.ones([4, 2])).realize();
    expect(await sw.nn.auxiliaryLoss(moe).item()).toBe(0);
  });

  it('without a token have gradients of zeros, so that every optimizer and norm counts them', async () => {
    const moe = new sw.nn.MixtureOfExperts(2, 4, 3, { gate: sw.nn.switchGate() });
    moe
      .forward(sw.ones([1, 2]))
      .sum()
      .backward();
    const norm = sw.optim.clipGradNorm(moe.parameters(), 1);
    expect(await norm.item()).toBeGreaterThan(0);
    expect(moe.experts.up.grad?.shape).toEqual([3, 2, 4]);
  });
});

describe('steps ahead of their verdict', () => {
  it('are not saved before it is there, and then as they became', async () => {
    sw.setRank({ device: interpreter(), mesh: new sw.LineMesh('pp', singleGroup()) });
    const weight = new sw.nn.Parameter(Float32Array.of(3), [1]);
    const inner = new sw.optim.SGD([weight], { lr: 1, momentum: 0.5 });
    const optimizer = new OptimisticOptimizer(inner, { maxNorm: 1, skipNonFinite: true });
    weight.mul(4).sum().backward();
    await optimizer.step();
    expect(() => optimizer.savedState(weight)).toThrow('await optimizer.verdict()');
    expect(await optimizer.verdict()).toEqual({ norm: 4, taken: true });
    expect(optimizer.savedState(weight)?.steps).toBe(1);
    expect(await weight.item()).toBeCloseTo(2, 5);
    optimizer.zeroGrad();
    weight.mul(Number.NaN).sum().backward();
    await optimizer.step();
    expect(await weight.item()).toBeCloseTo(2, 5);
    expect(optimizer.savedState(weight)?.steps).toBe(1);
  });

  it('scale the loss that follows by what became of them: an overflow halves its scale, and not that of the one after', async () => {
    sw.setRank({ device: interpreter(), mesh: new sw.LineMesh('pp', singleGroup()) });
    const weight = new sw.nn.Parameter(Float32Array.of(3), [1]);
    const scaler = new sw.optim.DynamicLossScaler({ initialScale: 8, hysteresis: 1 });
    const optimizer = new OptimisticOptimizer(new sw.optim.SGD([weight], { lr: 1 }), { scaler });
    scaler.scale(weight.mul(Infinity).sum()).backward();
    await optimizer.step();
    const scaled = scaler.scale(weight.mul(2).sum());
    expect(await optimizer.verdict()).toMatchObject({ taken: false });
    expect(await scaled.item()).toBe(4 * 6);
    expect(() => scaler.update()).toThrow('no step() since the last one');
  });
});

describe('gradients', () => {
  it('noGrad with an async body is refused: it would end at the first await', async () => {
    const x = sw.tensor([1, 2]).requiresGrad_();
    const body = async (): Promise<number> => x.square().sum().item();
    expect(() => sw.noGrad(body)).toThrow(/noGrad with a body that returns a promise.*await/s);
    expect(x.mul(2).requiresGrad).toBe(true);
  });

  it('a gradient penalty trains where it is written with createGraph, and is refused without', async () => {
    const x = sw.tensor([1, 2]).requiresGrad_();
    const [without] = sw.autograd.grad(x.square().sum(), [x]);
    expect(() => without?.square().sum().add(x.sum()).backward()).toThrow('createGraph: true');
    const [gradient] = sw.autograd.grad(x.square().sum(), [x], { createGraph: true });
    gradient?.square().sum().backward();
    expect(await x.grad?.data()).toEqual(Float32Array.of(8, 16));
  });

  it('a second loss adds its gradients, and so does the same one again', async () => {
    const [a, b] = [sw.tensor([2]).requiresGrad_(), sw.tensor([3]).requiresGrad_()];
    const hidden = a.mul(5);
    const [first, second] = [hidden.sum(), hidden.mul(b).sum()];
    first.backward();
    second.backward();
    second.backward();
    expect(await a.grad?.item()).toBe(5 + 15 + 15);
    expect(await b.grad?.item()).toBe(10 + 10);
  });

  it('a gradient penalty is refused: gradients have no gradients, and it would have no effect', () => {
    const x = sw.tensor([1, 2]).requiresGrad_();
    x.square().sum().backward();
    const penalty = x.grad?.square().sum() ?? sw.tensor(0);
    expect(() => x.sum().add(penalty).backward()).toThrow(
      'a gradient penalty would have no effect',
    );
    x.sum().add(penalty.detach()).backward();
  });

  it('backward() after step() is an error: the gradient would be that of other weights', async () => {
    const weight = sw.tensor([2]).requiresGrad_();
    const loss = weight.square().sum();
    loss.backward();
    await new sw.optim.SGD([weight], { lr: 1 }).step();
    expect(() => loss.backward()).toThrow(/backward\(\) of all losses before step\(\)/);
  });
});

describe('programs', () => {
  it('a loss that is read after the step has its value; what is large is an error with its line', async () => {
    const weight = sw.ones([400]).requiresGrad_();
    const squares = weight.square();
    const loss = squares.mean();
    loss.div(2).backward();
    const updated = new sw.optim.SGD([weight], { lr: 1 }).step();
    await updated;
    expect(await loss.item()).toBe(1);
    await expect(squares.data()).rejects.toThrow(
      /mul at .*traps\.test\.ts:\d+:\d+.*updated in place.*retain\(\)/s,
    );
  });

  it('what was assigned of another tensor has its value of then, whatever becomes of that', async () => {
    const [online, target] = [sw.ones([2]).requiresGrad_(), sw.zeros([2])];
    target.assign(online);
    online.mul(3).sum().backward();
    await new sw.optim.SGD([online], { lr: 1 }).step();
    expect(await target.data()).toEqual(Float32Array.of(1, 1));
    expect(await online.data()).toEqual(Float32Array.of(-2, -2));
  });

  it('numbers that differ by a sign or by infinity do not share a program', async () => {
    const x = sw.ones([1]);
    expect(await x.div(0).item()).toBe(Infinity);
    expect(await x.div(-0).item()).toBe(-Infinity);
    for (const value of [Infinity, -Infinity, Number.NaN]) {
      expect((await x.pad([1], [0], value).data())[0]).toBe(value);
    }
  });

  it('a number that is another one in each step compiles nothing after the second', async () => {
    const x = sw.tensor([1, 2]);
    const read = (step: number): Promise<number> => x.sum().mul(step).item();
    await read(0);
    await read(1);
    const before = sw.statistics();
    for (let step = 2; step < 20; step++) expect(await read(step)).toBe(3 * step);
    expect(sw.statistics().plansMade).toBe(before.plansMade);
  });

  it('a size that is another one in each step compiles nothing once it has been large', async () => {
    const before = sw.statistics().plansMade;
    for (let size = 1; size < 160; size++) {
      expect(await sw.ones([size]).sum().item()).toBe(size);
    }
    // There is a plan for the sizes up to each power of two, and one each for 0 and 1.
    expect(sw.statistics().plansMade - before).toBeLessThan(10);
  });

  it('after one error that was caught, what has nothing to do with it is computed', async () => {
    const weight = sw.ones([1]).requiresGrad_();
    const bad = sw.tensor([9], 'i32').oneHot(3).sum().mul(weight.detach()).sum();
    const total = sw.ones([2]).sum().retain();
    await expect(bad.item()).rejects.toThrow(/oneHot at/);
    expect(await total.item()).toBe(2);
    weight.mul(2).sum().backward();
    await new sw.optim.SGD([weight], { lr: 1 }).step();
    expect(await weight.item()).toBe(-1);
  });

  it('a sum over thousands of steps is read in linear time: it is computed in pieces', async () => {
    const { plansMade: before } = sw.statistics();
    let total = sw.tensor(0);
    for (let step = 0; step < 8_000; step++) total = total.add(sw.tensor(step % 2));
    expect(await total.item()).toBe(4_000);
    expect(sw.statistics().plansMade - before).toBeLessThan(10);
  });

  it('timers tick in a loop that awaits nothing but tensors', async () => {
    let ticks = 0;
    const timer = setInterval(() => ticks++, 1);
    const end = performance.now() + 200;
    while (performance.now() < end) await sw.ones([4]).sum().item();
    clearInterval(timer);
    expect(ticks).toBeGreaterThan(0);
  });
});

describe('numbers', () => {
  it('integers do not swallow fractions: numbers promote them', async () => {
    const x = sw.tensor([0, 1, 2], 'i32');
    expect(await x.mul(0.5).data()).toEqual(Float32Array.of(0, 0.5, 1));
    expect(await x.lt(0.5).data()).toEqual(Uint8Array.of(1, 0, 0));
    expect(await x.div(2).data()).toEqual(Float32Array.of(0, 0.5, 1));
    expect(() => sw.arange(4).mean()).toThrow(/mean of an i32 tensor.*to\('f32'\)/);
    expect(() => sw.tensor([0.5], 'i32')).toThrow('0.5 as an element of i32');
  });

  it('integers wrap around as in PyTorch: sums do not saturate, and -2^31 is the smallest', async () => {
    expect(
      await sw
        .full([3], 2 ** 31 - 1, 'i32')
        .sum()
        .item(),
    ).toBe(2 ** 31 - 3);
    expect(
      await sw
        .tensor([-(2 ** 31), 5], 'i32')
        .min()
        .item(),
    ).toBe(-(2 ** 31));
  });

  it('a running sum counts beyond 2^24, and its gradient keeps small terms', async () => {
    expect(
      (
        await sw
          .tensor([2 ** 24, 1, 1])
          .cumsum(0)
          .data()
      )[2],
    ).toBe(2 ** 24 + 2);
    const x = sw.tensor([1, 1]).requiresGrad_();
    x.cumsum(0)
      .mul(sw.tensor([1e9, 1e-3]))
      .sum()
      .backward();
    expect((await x.grad?.data())?.[1]).toBe(Math.fround(1e-3));
  });

  it('a zero-initialised head learns from negatives: kinks inside of a loss are not its own', async () => {
    const logits = sw.tensor([0, 0, 0]).requiresGrad_();
    const targets = sw.tensor([0, 1, 0.5]);
    sw.nn.functional.binaryCrossEntropyWithLogits(logits, targets, { reduction: 'sum' }).backward();
    expect(await logits.grad?.data()).toEqual(Float32Array.of(0.5, -0.5, 0));
  });

  it('clamp hands the whole gradient on at its bounds', async () => {
    const x = sw.tensor([-1, 1]).requiresGrad_();
    x.clamp(-1, 1).sum().backward();
    expect(await x.grad?.data()).toEqual(Float32Array.of(1, 1));
  });

  it('a label that is no class trains nothing else, but says so, with the line', async () => {
    const labels = sw.tensor([-1, 1], 'i32');
    const loss = sw.nn.functional.crossEntropy(sw.zeros([2, 3]), labels);
    await expect(loss.item()).rejects.toThrow(
      /crossEntropy at .*traps\.test\.ts:\d+:\d+: label -1 at element 0, where labels go from 0 to 2/,
    );
  });

  it('an index that there is no row for does not wrap: embedding, gather and oneHot say so', async () => {
    const index = sw.tensor([-1], 'i32');
    const rows = sw.ones([3, 1]);
    await expect(sw.nn.functional.embedding(index, rows).data()).rejects.toThrow(/embedding at/);
    await expect(rows.gather(0, index.unsqueeze(1)).data()).rejects.toThrow(/gather at/);
    await expect(index.oneHot(3).data()).rejects.toThrow(/oneHot at/);
  });

  it('a label or token that no rank has a row for is not passed over', async () => {
    sw.setRank({ device: interpreter(), mesh: new sw.LineMesh('tp', singleGroup()) });
    const labels = sw.tensor([1, 7], 'i32');
    await expect(vocabParallelCrossEntropy(sw.zeros([2, 3]), labels).item()).rejects.toThrow(
      /vocabParallelCrossEntropy at .*label 7 at element 1, where labels go from 0 to 2/,
    );
    const rows = distributeTensor(sw.ones([3, 2]), { dims: [[], []], partial: [] });
    const tokens = distributeTensor(labels, { dims: [[]], partial: [] });
    await expect(sw.nn.functional.embedding(tokens, rows).toLocal().data()).rejects.toThrow(
      /index 7 at element 1/,
    );
  });

  it('the mean of many f16 values does not pass through infinity', async () => {
    expect(await sw.ones([100_000]).to('f16').mean().item()).toBe(1);
  });

  it('item() of f16 and bf16 is their value, not their bits', async () => {
    expect(await sw.tensor(1.5).to('f16').item()).toBe(1.5);
    expect(await sw.tensor(1.5).to('bf16').item()).toBe(1.5);
  });

  it('NaN is not swallowed by a pool, and is the first maximum', async () => {
    const image = sw.tensor([
      [
        [
          [1, Number.NaN],
          [2, 3],
        ],
      ],
    ]);
    expect(await sw.nn.functional.maxPool2d(image, 2).item()).toBeNaN();
    expect(await sw.tensor([1, Number.NaN, 9, Number.NaN]).argMax(0).item()).toBe(1);
  });

  it('a window beyond the image is refused, as vectors are whose lengths differ', () => {
    expect(() => sw.nn.functional.maxPool2d(sw.ones([1, 1, 2, 2]), 3)).toThrow(
      'an output of 0 × 0',
    );
    expect(() => sw.ones([1]).matmul(sw.ones([3]))).toThrow('vectors of different lengths');
  });

  it('norms, deviations, products and distances have a gradient at 0, and not NaN', async () => {
    const x = sw.tensor([[0, 0]]).requiresGrad_();
    x.norm().add(x.std()).add(x.prod()).add(sw.cdist(x, x.detach()).sum()).backward();
    expect(await x.grad?.data()).toEqual(Float32Array.of(0, 0));
    const y = sw.tensor([0, 3]).requiresGrad_();
    y.prod().backward();
    expect(await y.grad?.data()).toEqual(Float32Array.of(3, 0));
  });

  it('small numbers are not lost beside 1, and powers of 2 have whole logarithms', async () => {
    const x = sw.tensor([1e-9]);
    expect(await x.log1p().item()).toBe(Math.fround(1e-9));
    expect(await x.expm1().item()).toBe(Math.fround(1e-9));
    expect(await sw.tensor([8]).log2().floor().item()).toBe(3);
  });

  it('a list in at() is no slice: rows 0 and 2 are asked for with a tensor', async () => {
    const x = sw.arange(6).reshape([3, 2]);
    expect(() => x.at([0, 2] as never)).toThrow(/slice\(0, 2\) for elements 0 and 1/);
    expect(() => x.at(sw.slice(2, 0, -1))).toThrow('Use flip() to go backwards');
    expect((await x.at(sw.tensor([0, -1], 'i32'), 0).data()).join()).toBe('0,4');
  });

  it('an element that is not there is not taken from another dim, nor counted', async () => {
    const [rows, columns] = [sw.tensor([0], 'i32'), sw.tensor([5], 'i32')];
    await expect(sw.ones([3, 2]).at(rows, columns).data()).rejects.toThrow(/at at .*traps\.test/);
    await expect(
      sw
        .ones([3, 2])
        .indexPut([rows, columns], sw.ones([1]))
        .data(),
    ).rejects.toThrow(/indexPut at .*traps\.test/);
    await expect(columns.binCount(3).data()).rejects.toThrow(/binCount at .*traps\.test/);
  });

  it('of equal places the last one is written, and what was written over has no gradient', async () => {
    const source = sw.tensor([5, 7]).requiresGrad_();
    const y = sw.zeros([2]).scatter(0, sw.tensor([1, 1], 'i32'), source);
    y.sum().backward();
    expect(await y.data()).toEqual(Float32Array.of(0, 7));
    expect(await source.grad?.data()).toEqual(Float32Array.of(0, 1));
  });

  it('a value that the dtype does not hold is not rounded into a tensor', () => {
    const mask = sw.tensor([true, false]);
    expect(() => sw.zeros([2], 'i32').maskedFill(mask, 0.5)).toThrow(
      /0.5, which i32 does not hold/,
    );
    expect(() => mask.maskedFill(mask, 2)).toThrow(/which bool does not hold/);
  });

  it('labels of int64, as other tools have them, convert', async () => {
    const labels = sw.fromData(BigInt64Array.of(2n, 0n), [2], 'i64');
    expect(await labels.to('i32').data()).toEqual(Int32Array.of(2, 0));
    expect(await labels.to('f32').data()).toEqual(Float32Array.of(2, 0));
    expect(() => labels.add(1)).toThrow(/add of an i64 tensor.*to\('i32'\)/);
  });

  it('what has no gradient does not ask for one: integers neither train nor are differentiated', () => {
    expect(() => sw.tensor([1], 'i32').requiresGrad_()).toThrow('only floats have gradients');
    const x = sw.tensor([1, 2]).requiresGrad_();
    expect(() => x.gt(1).sum().backward()).toThrow('no tensor that requires a gradient');
  });
});

describe('mixed precision', () => {
  it('computes the same bits on processors with instructions for bf16 and without, AMX left out', async () => {
    const [x, w] = [1, 2].map((seed) =>
      Array.from({ length: 20 }, (_, row) =>
        Array.from({ length: 20 }, (__, k) => Math.sin(seed + 31 * row + k)),
      ),
    );
    const made = async (instructions: 'AVX512-BF16' | 'AVX2'): Promise<unknown> => {
      sw.setRank({ device: await cpu({ byteLength: 2 ** 26, instructions }) });
      const product = (): sw.Tensor => sw.tensor(x ?? []).matmul(sw.tensor(w ?? []));
      return sw.autocast({ dtype: 'bf16' }, product).data();
    };
    expect(await made('AVX512-BF16')).toEqual(await made('AVX2'));
  });

  const fine = 1 + 2 ** -9; // 1 in bf16

  it('a loss is f32 under autocast, a written one too, though logits are bf16', async () => {
    const logits = sw.randn([4, 3]).to('bf16');
    const losses = sw.autocast({}, () => [
      sw.nn.functional.crossEntropy(logits, sw.tensor([0, 1, 2, 0], 'i32')),
      sw.nn.functional.mseLoss(logits, logits.mul(2)),
      logits.square().mean(),
    ]);
    expect(losses.map(({ dtype }) => dtype)).toEqual(['f32', 'f32', 'f32']);
  });

  it('statistics of norms are f32 under autocast', async () => {
    const x = sw.tensor([[1000, 1004, 1008]]).to('bf16');
    const norm = new sw.nn.LayerNorm(3);
    const y = sw.autocast({}, () => norm.forward(x));
    expect(y.dtype).toBe('f32');
    expect((await y.data())[0]).toBeCloseTo(-1.2247, 3);
  });

  it('indices, integers and bools are not rounded under autocast', async () => {
    const table = sw.arange(400).to('f32').reshape([400, 1]);
    const ids = sw.tensor([257, 399], 'i32'); // neither is a bf16
    const rows = sw.autocast({}, () => sw.nn.functional.embedding(ids, table));
    expect(await rows.flatten().data()).toEqual(Float32Array.of(257, 399));
  });

  it('weights keep their digits under autocast: in updates and in what is saved', async () => {
    const layer = new sw.nn.Linear(1, 1, { bias: false });
    layer.weight.assign(sw.tensor([[fine]]));
    const optimizer = new sw.optim.SGD(layer.parameters(), { lr: 2 ** -12 });
    sw.autocast({}, () => layer.forward(sw.ones([1, 1])).sum()).backward();
    await optimizer.step();
    const { weight } = await layer.stateDict();
    expect(weight?.dtype).toBe('f32');
    expect(await layer.weight.item()).toBe(fine - 2 ** -12);
  });

  it('a strategy computes in computeDtype or says why not, and a loss of what it gives is f32', async () => {
    sw.setRank({ device: interpreter(), mesh: new sw.LineMesh('dp', singleGroup()) });
    const mixedPrecision = { computeDtype: 'bf16' } as const;
    const model = new sw.nn.Sequential(new sw.nn.Linear(1, 1, { bias: false }));
    model.parameters()[0]?.assign(sw.tensor([[fine]]));
    const parallel = await parallelize(model, fsdp({ mixedPrecision }));
    const y = parallel.forward(sw.ones([1, 1]));
    expect(y.dtype).toBe('f32');
    expect(await y.item()).toBe(1);
    const given: object = { mixedPrecision };
    expect(() => dataParallel(given)).toThrow(/no option of this name/);
    expect(() => ddp({ mixedPrecision: { ...mixedPrecision, reduceDtype: 'bf16' } })).toThrow(
      /reduceDtype for parameters of f32/,
    );
  });

  it('backward outside of autocast computes as forward did; an inner autocast counts', async () => {
    const weight = sw.tensor([[fine]]).requiresGrad_();
    const x = sw.tensor([[fine]]);
    sw.autocast({}, () => x.matmul(weight).sum()).backward();
    expect(await weight.grad?.item()).toBe(1);
    weight.zeroGrad();
    sw.autocast({}, () => sw.autocast({ enabled: false }, () => x.matmul(weight).sum())).backward();
    expect(await weight.grad?.item()).toBe(fine);
  });
});

describe('modules and options', () => {
  it('labels as floats are refused: they are neither classes nor their probabilities', () => {
    const { crossEntropy } = sw.nn.functional;
    expect(() => crossEntropy(sw.ones([2, 3]), sw.tensor([0, 1]))).toThrow(/labels are i32/);
  });

  it('an optimizer that was made before model.to(dtype) is refused: it would train nothing', async () => {
    const model = new sw.nn.Linear(1, 1);
    const sgd = new sw.optim.SGD(model.parameters());
    await model.to('f16');
    await expect(sgd.step()).rejects.toThrow(/Make optimizers after parallelize\(\) and to\(\)/);
  });

  it('a layer that is called twice in a step counts both batches in its running statistics', async () => {
    const norm = new sw.nn.BatchNorm1d(1, { momentum: null });
    for (const values of [
      [1, 3],
      [5, 7],
    ])
      norm.forward(sw.tensor(values).reshape([2, 1]));
    expect(await norm.runningMean.data()).toEqual(Float32Array.of(4));
  });

  class Hiding extends sw.nn.Module {
    readonly #head = new sw.nn.Linear(1, 1);
    forward(x: sw.Tensor): sw.Tensor {
      return this.#head.forward(x);
    }
  }

  /** A module that holds a value in a field. */
  class Holding extends sw.nn.Module {
    readonly held: unknown;
    constructor(held: unknown) {
      super();
      this.held = held;
    }
  }

  it('a layer in a #private field is missed: it would never be trained', () => {
    expect(() => new Hiding().parameters()).toThrow(
      /Hiding: its constructor makes a Linear that no/,
    );
    expect(() => new sw.nn.Sequential(new Hiding()).train()).toThrow(/Use public fields/);
  });

  it('layers in arrays, Maps and plain objects are refused, by the field', () => {
    const linear = new sw.nn.Linear(1, 1);
    const inside = (held: unknown) => () => new Holding(held).parameters();
    expect(inside([linear])).toThrow("a Linear inside an array in the field 'held'");
    expect(inside(new Map([['a', linear]]))).toThrow("a Linear inside a Map in the field 'held'");
    expect(inside({ a: linear })).toThrow("a Linear inside a plain object in the field 'held'");
  });

  it('a tensor with requiresGrad_() as a field is refused: no optimizer would be given it', () => {
    const module = new Holding(sw.tensor([1]).requiresGrad_());
    expect(() => module.parameters()).toThrow(
      /a tensor that requires a gradient and is no Parameter/,
    );
  });

  it('new Sequential([a, b]) is refused: it has layers, and not a list', () => {
    const list = [new sw.nn.Linear(1, 1)] as never;
    expect(() => new sw.nn.Sequential(list)).toThrow('Give it modules one by one');
  });

  it('a misspelt option is refused with the nearest name', () => {
    const parameters = new sw.nn.Linear(1, 1).parameters();
    const settings = { weight_decay: 0.1 } as never;
    expect(() => new sw.optim.AdamW(parameters, settings)).toThrow(
      /option weight_decay.*Write weightDecay/,
    );
    const group = { params: parameters, weight_decay: 0 } as never;
    expect(() => new sw.optim.AdamW([group])).toThrow(
      /parameter group 0, with the option weight_decay/,
    );
    const pool = { ceilMode: true } as never;
    expect(() => new sw.nn.MaxPool2d(2, pool)).toThrow(/option ceilMode: no option of this name/);
  });

  it("what stands in the place of options is refused, as torch's positional masks and weights", () => {
    const [q, mask] = [sw.ones([1, 1, 2, 1]), sw.tensor([[true, false]])];
    const attend = (options: unknown) => () =>
      sw.nn.functional.scaledDotProductAttention(q, q, q, options as never);
    expect(attend(mask)).toThrow('with a Tensor in the place of its options');
    expect(attend(new Map([['mask', mask]]))).toThrow('with a Map in the place of its options');
    expect(attend({ mask: sw.tensor([[1, 0]], 'i32') })).toThrow('a mask of i32: integers');
    const attention = new sw.nn.MultiheadAttention(4, 2);
    const x = sw.ones([1, 2, 4]);
    expect(() => attention.forward(x, x as never)).toThrow('in the place of its options');
  });

  it("{ padding: 'same' } and a bias in a place of its own are refused", () => {
    const same = { padding: 'same' } as never;
    expect(() => new sw.nn.Conv2d(1, 1, 3, same)).toThrow(
      /padding: 'same': a value that is not a whole/,
    );
    expect(() => new sw.nn.Linear(2, 3, false as never)).toThrow(
      /Linear with false in the place of its/,
    );
    expect(() => new sw.optim.SGD([], 0.1 as never)).toThrow(
      /SGD with 0.1 in the place of its options/,
    );
  });

  it('BatchNorm2d(3) on 4 channels says so, and what to do with channels that stand last', () => {
    const norm = new sw.nn.BatchNorm2d(3);
    expect(() => norm.forward(sw.ones([2, 4, 8, 8]))).toThrow('4 channels (dim 1) instead of 3');
    expect(() => norm.forward(sw.ones([2, 8, 8, 3]))).toThrow('x.permute([0, 3, 1, 2])');
  });

  it('batch norm of one value a channel is refused in training: only the bias would be left', () => {
    const norm = new sw.nn.BatchNorm2d(3);
    expect(() => norm.forward(sw.ones([1, 3, 1, 1]))).toThrow('one value for each channel');
    expect(norm.eval().forward(sw.ones([1, 3, 1, 1])).shape).toEqual([1, 3, 1, 1]);
  });

  it('loss < 0.1 and x * 2 are refused: a tensor is no number before it is read', () => {
    const below = (x: unknown, limit: number): boolean => Number(x) < limit;
    expect(() => below(sw.tensor(0.5), 0.1)).toThrow(/Write `await x.item\(\)`/);
  });

  it('split(0) is refused, and so are sizes that a method does not take', () => {
    expect(() => sw.ones([4]).split(0)).toThrow('split with size: 0: a value that is not a whole');
    expect(() => sw.ones([4]).to('float32' as never)).toThrow("Write 'f32'");
  });

  it('console.log(tensor) and templates say what a tensor is, and its values where they are there', () => {
    expect(inspect(sw.tensor([1, 2]))).toBe('Tensor f32 [2] on the host: [1., 2.]');
    expect(String(sw.ones([2]).mul(2))).toBe('Tensor f32 [2], not computed yet (mul)');
  });

  it('a parameter group that is added after the scheduler is an error: it would keep its rate', () => {
    const [a, b] = [new sw.nn.Linear(1, 1), new sw.nn.Linear(1, 1)];
    const sgd = new sw.optim.SGD(a.parameters(), { lr: 1 });
    const scheduler = new sw.optim.LearningRateScheduler(sgd, sw.optim.cosineSchedule(2));
    sgd.addParamGroup({ params: b.parameters() });
    expect(() => scheduler.step()).toThrow(/Make the scheduler after the last addParamGroup/);
  });

  it('probabilities of pixels do not take the width of an image for its classes', () => {
    const { crossEntropy } = sw.nn.functional;
    const [logits, shares] = [sw.zeros([2, 3, 4, 5]), sw.full([2, 3, 4, 5], 1 / 3)];
    expect(() => crossEntropy(logits, shares)).toThrow('any may be that of the classes');
    expect(crossEntropy(logits, shares, { dim: 1, reduction: 'none' }).shape).toEqual([2, 4, 5]);
  });

  it('a dataset that returns numbers, tensors or nothing is refused, by the item', async () => {
    const first = async (item: unknown): Promise<unknown> => {
      const dataset = { length: 1, get: () => item as never };
      return new sw.data.DataLoader({ dataset })[Symbol.asyncIterator]().next();
    };
    await expect(first(5)).rejects.toThrow('item 0 of the dataset into a batch: 5. Return arrays');
    await expect(first(undefined)).rejects.toThrow(
      'item 0 of the dataset into a batch: undefined.',
    );
    await expect(first({ x: sw.tensor([1]) })).rejects.toThrow('a tensor at x');
  });
});

describe('optimizers', () => {
  it('an average of weights that was begun before parallelize() is refused: its parameters are gone', async () => {
    const model = new sw.nn.Linear(2, 1);
    const averaged = new sw.optim.AveragedWeights(model);
    averaged.update();
    await model.to('bf16');
    expect(() => averaged.update()).toThrow("'weight', which the model did not have at the first");
  });

  it('a OneCycleScheduler of too few steps is told, and does not start over', () => {
    const sgd = new sw.optim.SGD([sw.tensor([1])], { momentum: 0.9 });
    const cycle = new sw.optim.OneCycleScheduler(sgd, { maxLr: 1, totalSteps: 2 });
    for (let step = 0; step < 2; step++) cycle.step();
    expect(() => cycle.step()).toThrow('a cycle of 2 steps');
  });

  it('an OffloadedOptimizer updates what its optimizer has and the model has not', async () => {
    const temperature = sw.tensor([1]).requiresGrad_();
    const adam = new sw.optim.SGD([temperature], { lr: 1 });
    const pages = { states: sw.hostPages() };
    const optimizer = new OffloadedOptimizer(new sw.nn.Linear(1, 1), adam, pages);
    temperature.sum().backward();
    await optimizer.step();
    expect(await temperature.item()).toBe(0);
  });

  it('one scaler serves two optimizers: its scale changes in update(), after both', async () => {
    const [a, b] = [sw.ones([1]).requiresGrad_(), sw.ones([1]).requiresGrad_()];
    const scaler = new sw.optim.DynamicLossScaler({ initialScale: 4, hysteresis: 1 });
    scaler.scale(a.mul(Infinity).add(b.mul(3)).sum()).backward();
    const applied: boolean[] = [];
    for (const parameter of [a, b]) {
      applied.push(await scaler.step(new sw.optim.SGD([parameter], { lr: 1 })));
    }
    scaler.update();
    expect(applied).toEqual([false, true]);
    expect([await a.item(), await b.item(), scaler.lossScale]).toEqual([1, -2, 2]);
  });

  it('gradients that are unscaled are not scaled again: update() is missed, by name', async () => {
    const weight = sw.ones([1]).requiresGrad_();
    const [scaler, sgd] = [new sw.optim.DynamicLossScaler(), new sw.optim.SGD([weight], { lr: 1 })];
    scaler.scale(weight.sum()).backward();
    scaler.unscale(sgd);
    await sgd.step();
    expect(() => scaler.unscale(sgd)).toThrow(/update\(\)/);
  });

  it('an update rule that assigns nothing is refused: nothing would be trained', async () => {
    class Forgetful extends sw.optim.SGD {
      protected override rule(): UpdateRule {
        return (parameter, gradient) => parameter.sub(gradient);
      }
    }
    const weight = sw.tensor([1]).requiresGrad_();
    weight.sum().backward();
    await expect(new Forgetful([weight]).step()).rejects.toThrow('it has assigned nothing');
  });

  it('states of AdamW8bit are saved in a form that can be loaded', async () => {
    const directory = await mkdtemp(join(tmpdir(), 'shardwise-traps-'));
    const train = async (model: sw.nn.Linear, optimizer: sw.optim.AdamW8bit): Promise<void> => {
      optimizer.zeroGrad();
      model
        .forward(sw.ones([1, 80]))
        .square()
        .sum()
        .backward();
      await optimizer.step();
    };
    const [first, second] = [new sw.nn.Linear(80, 80), new sw.nn.Linear(80, 80)];
    const [saved, loaded] = [first, second].map(
      (model) => new sw.optim.AdamW8bit(model.parameters()),
    );
    if (saved === undefined || loaded === undefined) throw new RangeError('two optimizers');
    await train(first, saved);
    await checkpoints.save(directory, { step: 1, model: first, optimizer: saved });
    const checkpoint = await checkpoints.load(directory);
    await checkpoints.loadModel(checkpoint, second);
    await checkpoints.loadOptimizer(checkpoint, second, loaded);
    await train(first, saved);
    await train(second, loaded);
    expect(await second.weight.data()).toEqual(await first.weight.data());
  });

  it('an infinity norm of gradients of which one is empty is that of the others', async () => {
    const [x, empty] = [
      sw.tensor([3]).requiresGrad_(),
      sw.fromData(new Float32Array(), [0], 'f32'),
    ];
    x.square().sum().add(empty.requiresGrad_().sum()).backward();
    const options = { normType: Number.POSITIVE_INFINITY };
    expect(await sw.optim.totalGradNorm([x, empty], options).item()).toBe(6);
  });
});

describe('strategies', () => {
  it('noSync with an async body is refused: ranks would communicate', async () => {
    sw.setRank({ device: interpreter(), mesh: new sw.LineMesh('dp', singleGroup()) });
    const model = await parallelize(new sw.nn.Linear(2, 1), ddp());
    const body = async (): Promise<number> =>
      model
        .forward(sw.ones([1, 2]))
        .sum()
        .item();
    expect(() => model.noSync(body)).toThrow(/noSync with a body that returns a promise/);
  });

  it('an optimizer made before parallelize is refused: it has parameters that the model has no more', async () => {
    sw.setRank({ device: interpreter(), mesh: new sw.LineMesh('dp', singleGroup()) });
    const net = new sw.nn.Linear(2, 1);
    const { weight } = net;
    const optimizer = new sw.optim.Adam(net.parameters());
    const model = await parallelize(net, fsdp());
    model
      .forward(sw.ones([1, 2]))
      .sum()
      .backward();
    await expect(optimizer.step()).rejects.toThrow(/Make optimizers after parallelize/);
    expect(() => weight.square().sum()).toThrow(/another one in its place.*'weight'/);
  });

  it.each([
    ['ddp', (): sw.Strategy<sw.nn.Module> => ddp()],
    ['zero', () => zero({ stage: 2 })],
    ['fsdp', () => fsdp()],
  ])(
    'an update with gradients of one rank alone, all from noSync, is refused: %s',
    async (_, of) => {
      sw.setRank({ device: interpreter(), mesh: new sw.LineMesh('dp', singleGroup()) });
      const model = await parallelize(new sw.nn.Linear(2, 1), of());
      const optimizer = new sw.optim.SGD(model.module.parameters());
      model.noSync(() =>
        model
          .forward(sw.ones([1, 2]))
          .sum()
          .backward(),
      );
      await expect(optimizer.step()).rejects.toThrow(
        /last backward\(\) of a step outside of noSync/,
      );
    },
  );

  it('a plan that was edited so that its steps do not fit is refused: gradients of parts would not be averaged', async () => {
    sw.setRank({ device: interpreter(), mesh: new sw.LineMesh('dp', singleGroup()) });
    const net = new sw.nn.Linear(2, 1);
    const plan = planFor(net, fsdp());
    const edited = { ...plan, steps: plan.steps.toReversed() };
    await expect(applyPlan(edited, net)).rejects.toThrow(/Put 'distribute' before 'reduce'/);
  });

  it('a parameter without elements trains under fsdp', async () => {
    sw.setRank({ device: await cpu(), mesh: new sw.LineMesh('dp', singleGroup()) });
    const net = new sw.nn.Linear(2, 1);
    net.bias = new sw.nn.Parameter(new Float32Array(), [0, 1]);
    const { module } = await parallelize(net, fsdp());
    module.weight
      .sum()
      .add(module.bias?.sum() ?? 0)
      .backward();
    await new sw.optim.SGD(module.parameters()).step();
    expect((await module.bias?.data())?.length).toBe(0);
  });

  it('a forward pass in gradient mode that nobody calls backward() of leaves nothing behind', async () => {
    sw.setRank({ device: interpreter(), mesh: new sw.LineMesh('dp', singleGroup()) });
    const seen: WeakRef<Node>[] = [];
    class Seen extends sw.nn.Linear {
      override forward(x: sw.Tensor): sw.Tensor {
        seen.push(new WeakRef(this.weight.node));
        return super.forward(x);
      }
    }
    const model = await parallelize(new Seen(2, 1), fsdp());
    for (let pass = 0; pass < 5; pass++) await model.forward(sw.ones([1, 2])).data();
    setFlagsFromString('--expose-gc');
    const collectGarbage: unknown = runInNewContext('gc');
    await nextTurn(0);
    if (typeof collectGarbage === 'function') collectGarbage();
    expect(seen.filter((node) => node.deref() !== undefined).length).toBeLessThan(3);
  });

  it('a parameter that no loss of a step uses is an error of the update, which names it', async () => {
    sw.setRank({ device: interpreter(), mesh: new sw.LineMesh('dp', singleGroup()) });
    const net = new sw.nn.Sequential(new sw.nn.Linear(2, 1), new sw.nn.Linear(2, 1));
    const { module } = await parallelize(net, ddp());
    module
      .at(0)
      ?.forward(sw.ones([1, 2]))
      .sum()
      .backward();
    const step = new sw.optim.SGD(module.parameters()).step();
    await expect(step).rejects.toThrow(/2 of 4 parameters got no gradient.*1\.bias, 1\.weight/);
  });

  it.each([
    ['ddp', ddp()],
    ['fsdp', fsdp()],
  ])(
    'ranks with other numbers of backward passes in a step are told so, and not averaged with those of a later one: %s',
    async (_, strategy) => {
      await onRanks(2, async ({ rank }) => {
        const parallel = await parallelize(new sw.nn.Linear(2, 1), strategy);
        const optimizer = new sw.optim.SGD(parallel.module.parameters(), { lr: 1 });
        const train = async (): Promise<void> => {
          for (const passes of rank === 0 ? [2, 1] : [1, 2]) {
            for (let pass = 0; pass < passes; pass++) {
              parallel
                .forward(sw.ones([1, 2]))
                .sum()
                .backward();
            }
            await optimizer.step();
          }
        };
        await expect(train()).rejects.toThrow(/pass 2\).*pass 1\)|pass 1\).*pass 2\)/s);
        // A rank that does nothing issues its collectives, and sums whose parts were lost do not make that fail.
        await nextTurn(200);
        // The step has ended in the middle. What it has left is not computed.
        optimizer.zeroGrad();
      });
    },
  );

  it('a pipeline schedule whose ranks would wait for each other for ever is refused, and says which', () => {
    const wrong = '0F0,0B0,0F1,0B1\n1F1,1B1,1F0,1B0';
    expect(() => readSchedule(wrong)).toThrow(
      'rank 0 at action 1, 0B0, waits for 1B0 of rank 1; rank 1 at action 0, 1F1, waits for 0F1 of rank 0',
    );
  });

  describe('on two ranks', () => {
    class Two extends sw.nn.Module {
      readonly left = new sw.nn.Parameter(Float32Array.of(0), []);
      readonly right = new sw.nn.Parameter(Float32Array.of(0), []);
      readonly list = new sw.nn.Parameter(Float32Array.of(1, 2, 3), [3], { requiresGrad: false });
      readonly seen = new sw.nn.BufferTensor(Float32Array.of(0), []);

      /** Shape: -> []. */
      forward(which: 'left' | 'right'): sw.Tensor {
        return this[which].add(this.seen);
      }
    }

    const twoOf = async (strategy: sw.Strategy<sw.nn.Module> = ddp()) => {
      const model = new Two();
      const parallel = await parallelize(model, strategy);
      const optimizer = new sw.optim.SGD(model.parameters(), { lr: 1 });
      return { model, optimizer, forward: (which: 'left' | 'right') => parallel.forward(which) };
    };

    /** The number of the rank plus one. As a gradient, its mean is 1.5. The learning rate is 1. */
    const onTwo = (
      body: (own: number, group: sw.ProcessGroup) => Promise<void>,
    ): Promise<unknown> => onRanks(2, ({ rank, group }) => body(rank + 1, group));

    const folder = (): Promise<string> => mkdtemp(join(tmpdir(), 'shardwise-traps-'));

    it('two losses with different parameters add up, and are averaged', async () => {
      await onTwo(async (gradient) => {
        const { model, optimizer, forward } = await twoOf();
        forward('left').mul(gradient).backward();
        forward('right').mul(gradient).backward();
        await optimizer.step();
        expect([await model.left.item(), await model.right.item()]).toEqual([-1.5, -1.5]);
      });
    });

    it('a parameter that was frozen and is released, as in a GAN, is averaged again', async () => {
      await onTwo(async (gradient) => {
        const { model, optimizer, forward } = await twoOf();
        model.left.requiresGrad_(false).requiresGrad_(true);
        forward('left').add(forward('right')).mul(gradient).backward();
        await optimizer.step();
        expect(await model.left.item()).toBe(-1.5);
      });
    });

    it('a parameter that is frozen after parallelize does not count as unused', async () => {
      await onTwo(async (gradient) => {
        const { model, optimizer, forward } = await twoOf();
        model.right.requiresGrad_(false);
        forward('left').mul(gradient).backward();
        await optimizer.step();
        expect([await model.left.item(), await model.right.item()]).toEqual([-1.5, 0]);
      });
    });

    it.each([
      ['zero 1', zero({ stage: 1 })],
      ['zero 2', zero({ stage: 2 })],
      ['zero 3', zero({ stage: 3 })],
      ['fsdp', fsdp()],
    ])(
      'a parameter used outside of forward, as a temperature in the loss, is whole and trains: %s',
      async (_, strategy) => {
        await onTwo(async (gradient) => {
          const { model, optimizer, forward } = await twoOf(strategy);
          forward('right').add(model.left.add(2).square()).mul(gradient).backward();
          await optimizer.step();
          expect([await model.left.item(), await model.right.item()]).toEqual([-6, -1.5]);
        });
      },
    );

    it('stateDict() under fsdp is that of the whole model', async () => {
      await onTwo(async () => {
        const { model } = await twoOf(fsdp());
        const { list } = await model.stateDict();
        expect([...new Float32Array(list?.bytes.slice().buffer ?? [])]).toEqual([1, 2, 3]);
      });
    });

    it('ranks that differ are not saved as if they had the same', async () => {
      const directory = await folder();
      await onTwo(async (own, group) => {
        const { model } = await twoOf();
        model.left.assign(sw.full([], own));
        const saved = checkpoints.save(directory, { step: 1, model }, { group });
        await expect(saved).rejects.toMatchObject({ code: 'CHECKPOINT' });
      });
    });

    it('other seeds before constructSharded() are told', async () => {
      await onTwo(async (own) => {
        sw.manualSeed(own);
        const model = constructSharded(() => new sw.nn.Linear(4, 4), fsdp());
        const made = parallelize(model, fsdp());
        await expect(made).rejects.toMatchObject({ code: 'COLLECTIVE_MISMATCH' });
      });
    });

    it('settings of an optimizer that differ are not saved as those of one rank', async () => {
      const directory = await folder();
      await onTwo(async (lr, group) => {
        const { model } = await twoOf(fsdp());
        const optimizer = new sw.optim.SGD(model.parameters(), { lr });
        const saved = checkpoints.save(directory, { step: 1, model, optimizer }, { group });
        await expect(saved).rejects.toMatchObject({ code: 'CHECKPOINT' });
      });
    });

    it('metrics of ReduceLROnPlateau that differ are refused, which would make learning rates differ', async () => {
      await onTwo(async (metric) => {
        const groups = { paramGroups: [{ lr: 0.5 }] };
        const plateau = new sw.optim.ReduceLROnPlateau(groups, { patience: 0, factor: 0.5 });
        await expect(plateau.step(metric)).rejects.toMatchObject({ code: 'CONFIG' });
        for (const loss of [1, 1]) await plateau.step(loss);
        expect(plateau.learningRates).toEqual([0.25]);
      });
    });

    it("in evaluation after training, all ranks use rank 0's buffers", async () => {
      await onTwo(async (own) => {
        const { model, forward } = await twoOf();
        sw.noGrad(() => model.seen.assign(model.seen.add(own)));
        model.eval();
        expect(await forward('left').detach().item()).toBe(1);
      });
    });
  });
});

describe('runs and data', () => {
  it('a stream that can be read once is told in its second epoch: it would be empty', async () => {
    const once = [1, 2].values().map((value) => sw.data.ndArray(Float32Array.of(value)));
    const loader = new sw.data.DataLoader({ dataset: once });
    const epoch = async (): Promise<void> => {
      for await (const _batch of loader);
    };
    await epoch();
    await expect(epoch()).rejects.toThrow(/every iteration starts anew/);
  });

  it('a loader goes on with other ranks: no item is lost or comes twice', async () => {
    const world = (
      ranks: number,
      batchSize: number,
    ): sw.data.DataLoader<{ i: sw.data.NDArray<'i32'> }>[] =>
      Array.from({ length: ranks }, (_, rank) => {
        const dataset = new sw.data.ArrayDataset({
          i: sw.data.ndArray(Int32Array.from({ length: 24 }, (_, i) => i)),
        });
        const sampler = new sw.data.DistributedSampler({ dataset, numReplicas: ranks, rank });
        return new sw.data.DataLoader({ dataset, sampler, batchSize });
      });
    const seen: number[] = [];
    const saved = world(4, 2);
    for (const loader of saved) for await (const { i } of loader) if (seen.push(...i.data)) break;
    const loaded = world(2, 4);
    for (const loader of loaded) {
      loader.load(saved[0]?.state());
      for await (const { i } of loader) seen.push(...i.data);
    }
    expect(seen.sort((a, b) => a - b)).toEqual(Array.from({ length: 24 }, (_, i) => i));
  });
});
