import { interpreter } from '@shardwise/testing';
import { beforeEach, describe, expect, it } from 'vitest';
import { crossEntropy } from '../src/nn/functional/cross-entropy.ts';
import { Linear } from '../src/nn/layers/linear.ts';
import { SGD } from '../src/optim/sgd.ts';
import { setRank } from '../src/rank.ts';
import { collect } from '../src/realize/collect/collect.ts';
import { SMALL_ELEMENTS } from '../src/realize/pending/small-values.ts';
import { TensorStateError } from '../src/spec/errors.ts';
import { fromData, full, tensor } from '../src/tensor/create.ts';
import { arange } from '../src/tensor/create-ranges.ts';
import type { Tensor } from '../src/tensor/tensor.ts';
import { statistics } from '../src/timeline.ts';

beforeEach(() => setRank({ device: interpreter() }));

function leaf(length: number): Tensor {
  return fromData(
    Float32Array.from({ length }, (_, i) => i),
    [length],
    'f32',
  ).makeResident();
}

/** Has this rank compute on a device that notes how many outputs each compiled program has. */
function countOutputs(): readonly number[] {
  const device = interpreter();
  const outputs: number[] = [];
  const compile = device.compile.bind(device);
  device.compile = (program) => {
    outputs.push(program.outputs.length);
    return compile(program);
  };
  setRank({ device });
  return outputs;
}

describe('a value written before an update', () => {
  it('is read after it, with what it was before, where it is small', async () => {
    const weight = tensor([1, 2, 3]).makeResident();
    const norm = weight.square().sum();
    weight.assign(weight.mul(2));
    await weight.realize();
    expect(await norm.item()).toBe(14);
    expect([...(await weight.data())]).toEqual([2, 4, 6]);
  });

  it('is read after it where it is large and retained', async () => {
    const weight = leaf(SMALL_ELEMENTS + 1);
    const squares = weight.square().retain();
    weight.assign(weight.mul(2));
    await weight.realize();
    expect((await squares.data())[3]).toBe(9);
  });

  it('is refused where it is large and not retained, and the error says how', async () => {
    const weight = leaf(SMALL_ELEMENTS + 1);
    const squares = weight.square();
    weight.assign(weight.mul(2));
    await weight.realize();
    await expect(squares.data()).rejects.toThrow(/updated in place .* Call retain\(\)/s);
    await expect(squares.data()).rejects.toThrow(TensorStateError);
  });
});

describe('a training step computes what a program may want to know of it', () => {
  const x = fromData(
    Float32Array.from({ length: 24 }, (_, i) => Math.sin(i)),
    [4, 6],
    'f32',
  );
  const y = tensor([0, 2, 1, 2], 'i32');

  it('but no range or constant, which can be computed at any time', async () => {
    const outputs = countOutputs();
    const weight = tensor([1, 2, 3, 4]).makeResident();
    const [range, halves, own] = [arange(1, 9, 2), full([4], 0.5), weight.sum()];
    weight.assign(weight.mul(2));
    await weight.realize();
    // The outputs are the sum and the doubled weight.
    expect(outputs).toEqual([2]);
    expect(await own.item()).toBe(10);
    expect(outputs).toEqual([2]);
    expect([...(await range.data())]).toEqual([1, 3, 5, 7]);
    expect([...(await halves.data())]).toEqual([0.5, 0.5, 0.5, 0.5]);
  });

  it('each once, also what the step is asked for, and nothing of what functions of the library make on the way', async () => {
    const outputs = countOutputs();
    const layer = new Linear(6, 3);
    const optimizer = new SGD(layer.parameters(), { lr: 0.1 });
    const logits = layer.forward(x);
    const loss = crossEntropy(logits, y);
    loss.backward();
    await optimizer.step();
    // The outputs are the logits, the loss, and the gradients of weight and bias.
    expect(outputs).toEqual([4]);
    expect(await loss.item()).toBeGreaterThan(0);
    expect((await logits.data()).length).toBe(12);
    expect(outputs).toEqual([4]);
  });

  it('not a second time where it is asked for and offered', () => {
    const { node } = tensor([1, 2]).square().sum();
    expect(collect([node], { offered: [node] }).taken).toEqual([]);
  });

  it('losses before they are scaled, metrics, norms: in the run of the step, each read alone', async () => {
    const layer = new Linear(6, 3);
    const optimizer = new SGD(layer.parameters(), { lr: 0.1 });
    for (let step = 0; step < 3; step++) {
      optimizer.zeroGrad();
      const logits = layer.forward(x);
      const loss = crossEntropy(logits, y);
      const hits = logits.argMax(1).eq(y).to('f32');
      const accuracy = hits.mean();
      const norm = layer.weight.square().sum().sqrt();
      loss.div(4).backward();
      await optimizer.step();
      const before = statistics().plansRun;
      const found = [loss, hits, accuracy, norm].map((each) => each.data());
      const [[lossValue], hitValues, [accuracyValue], [normValue]] = (await Promise.all(found)) as [
        Float32Array,
        Float32Array,
        Float32Array,
        Float32Array,
      ];
      expect(statistics().plansRun).toBe(before);
      expect(lossValue).toBeGreaterThan(0);
      expect(hitValues.reduce((sum, hit) => sum + hit, 0) / 4).toBe(accuracyValue);
      expect(normValue).toBeGreaterThan(0);
    }
  });

  it('with one plan, whatever is read', async () => {
    const layer = new Linear(6, 3);
    const optimizer = new SGD(layer.parameters(), { lr: 0.1 });
    const step = async (reads: boolean): Promise<void> => {
      optimizer.zeroGrad();
      const loss = crossEntropy(layer.forward(x), y);
      const accuracy = layer.forward(x).argMax(1).eq(y).to('f32').mean();
      loss.backward();
      await optimizer.step();
      if (reads) await accuracy.item();
    };
    await step(true);
    const { plansMade } = statistics();
    for (const reads of [false, true, false]) await step(reads);
    expect(statistics().plansMade).toBe(plansMade);
  });

  it('a running sum of losses needs no run of its own, and no time that grows', async () => {
    const layer = new Linear(6, 3);
    const optimizer = new SGD(layer.parameters(), { lr: 0.1 });
    let total = tensor(0);
    let expected = 0;
    for (let step = 0; step < 20; step++) {
      optimizer.zeroGrad();
      const loss = crossEntropy(layer.forward(x), y);
      total = total.add(loss.detach());
      loss.backward();
      await optimizer.step();
      expected += await loss.item();
    }
    const before = statistics();
    expect(await total.item()).toBeCloseTo(expected, 4);
    expect(statistics().plansRun).toBe(before.plansRun);
    expect(before.plansMade).toBeLessThan(statistics().plansRun);
  });
});

describe('a run that is no step', () => {
  it('computes no more than it is asked for, but what comes with it for a few operations', async () => {
    const data = fromData(
      Float32Array.from({ length: 600 }, (_, i) => Math.sin(i)),
      [2, 300],
      'f32',
    );
    const wide = data.exp();
    const [sum, mean] = [wide.sum(), wide.mean()];
    const other = data.cos().sum();
    await sum.item();
    expect([sum, mean, other].map(({ node }) => node.value !== null)).toEqual([true, true, false]);
  });

  it('leaves nothing behind: values of an evaluation that nobody reads are not computed later', async () => {
    const data = fromData(
      Float32Array.from({ length: 600 }, (_, i) => Math.sin(i)),
      [2, 300],
      'f32',
    );
    const unread = data.cos().sum();
    const weight = leaf(3);
    weight.assign(weight.mul(2));
    await weight.realize();
    // The unread value is computed once, along with a step, and never again.
    const { plansMade } = statistics();
    weight.assign(weight.mul(2));
    await weight.realize();
    weight.assign(weight.mul(2));
    await weight.realize();
    expect(statistics().plansMade).toBe(plansMade + 1);
    expect(await unread.item()).toBeCloseTo(
      data.numel === 600 ? await data.cos().sum().item() : 0,
      3,
    );
  });
});
