import { singleGroup } from '@shardwise/collectives';
import {
  LineMesh,
  manualSeed,
  nn,
  optim,
  rand,
  setRank,
  tensor,
  type Tensor,
} from '@shardwise/core';
import { onEveryRank, parallelize, GPipe, pipeline, PipelineRunner } from '@shardwise/strategies';
import { interpreter } from '@shardwise/testing';
import { beforeEach, describe, expect, it } from 'vitest';

beforeEach(() => setRank({ device: interpreter(), mesh: new LineMesh('pp', singleGroup()) }));

const distance = (output: Tensor, targets: Tensor): Tensor => output.sub(targets).square().mean();
const [x, y] = [
  () => tensor([1, 2, 3, 4, 5, 6]).reshape([3, 2]),
  () => tensor([1, 0, 2]).reshape([3, 1]),
];

function layers(): nn.Sequential {
  manualSeed(2);
  return new nn.Sequential(new nn.Linear(2, 3), new nn.Linear(3, 1));
}

describe('GPipe', () => {
  it("GPipe runs PyTorch's example on one rank", async () => {
    // Step 1: build a model including two linear layers
    const fc1 = new nn.Linear(16, 8);
    const fc2 = new nn.Linear(8, 4);

    // Step 2: wrap the two layers with nn.Sequential
    const sequential = new nn.Sequential(fc1, fc2);

    // Step 3: build Pipe
    const model = new GPipe(sequential, { chunks: 8 });

    // do training/inference
    const input = rand([16, 16]);
    const expected = await sequential.forward(input).data();
    const output = await model.forward(input);

    expect(await onEveryRank(output)).toBe(output);
    expect(output.shape).toEqual([16, 4]);
    for (const [index, value] of [...(await output.data())].entries()) {
      expect(value).toBeCloseTo(Number(expected[index]), 5);
    }
    expect(() => output.sum().backward()).toThrow('Give the loss to the pipeline');
  });

  it('GPipe trains with a loss as its model does', async () => {
    const [pipe, reference] = [new GPipe(layers(), { chunks: 3, loss: distance }), layers()];
    const { module } = await pipe.ready();
    const optimizers = [module, reference].map(
      (each) => new optim.SGD(each.parameters(), { lr: 0.1 }),
    );
    for (let step = 0; step < 2; step++) {
      for (const optimizer of optimizers) optimizer.zeroGrad();
      const loss = await pipe.forward(x(), y());
      const expected = distance(reference.forward(x()), y());
      for (const each of [loss, expected]) each.backward();
      for (const optimizer of optimizers) await optimizer.step();
      expect(await loss.item()).toBeCloseTo(await expected.item(), 4);
    }
  });

  it('GPipe refuses numbers of chunks below one', () => {
    expect(() => new GPipe(layers(), { chunks: 0 })).toThrow(/chunks.*0/);
  });
});

describe('PipelineRunner', () => {
  it('PipelineRunner does a forward and a backward pass in a step, and only the first in an evaluation', async () => {
    const parallel = await parallelize(
      layers(),
      pipeline({ schedule: 'interleaved1f1b', microbatches: 2, cut: ['1'], loss: distance }),
    );
    const schedule = new PipelineRunner(parallel);
    const expected = distance(layers().forward(x()), y());
    const evaluated = schedule.eval(x(), y());
    expect(await evaluated.item()).toBeCloseTo(await expected.item(), 5);
    expect(parallel.module.parameters().map(({ grad }) => grad)).toEqual([null, null, null, null]);
    const loss = schedule.step([x()], [y()]);
    expect(await loss.item()).toBeCloseTo(await expected.item(), 5);
    for (const { grad } of parallel.module.parameters()) expect(grad).not.toBeNull();
  });
});
