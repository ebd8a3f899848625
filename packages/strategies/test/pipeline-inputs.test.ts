import { singleGroup } from '@shardwise/collectives';
import { LineMesh, manualSeed, nn, noGrad, setRank, tensor, type Tensor } from '@shardwise/core';
import { onEveryRank, parallelize, pipeline } from '@shardwise/strategies';
import { interpreter } from '@shardwise/testing';
import { beforeEach, describe, expect, it } from 'vitest';
import { parameterCount } from '../src/pipeline/microbatches/parameter-count.ts';

beforeEach(() => setRank({ device: interpreter(), mesh: new LineMesh('pp', singleGroup()) }));

const options = { schedule: 'interleaved1f1b', microbatches: 2, cut: ['1'] } as const;

function layers(): nn.Sequential {
  manualSeed(1);
  return new nn.Sequential(new nn.Linear(2, 3), new nn.Linear(3, 2));
}

const distance = (output: Tensor, targets: Tensor): Tensor => output.sub(targets).square().mean();

const x = (): Tensor => tensor([1, 2, 3, 4, 5, 6]).reshape([3, 2]);

async function expectSame(found: Tensor, expected: Tensor): Promise<void> {
  const values = await expected.data();
  expect(found.shape).toEqual(expected.shape);
  for (const [index, value] of [...(await found.data())].entries()) {
    expect(value).toBeCloseTo(Number(values[index]), 5);
  }
}

describe('a pipeline with a loss', () => {
  it('a pipeline with a loss gives the loss for targets, and without them, inside noGrad, what the model returns', async () => {
    const model = await parallelize(layers(), pipeline({ ...options, loss: distance }));
    const expected = layers().forward(x());
    await expectSame(
      noGrad(() => model.forward(x())),
      expected,
    );
    await expectSame(
      noGrad(() => model.forward(x(), x())),
      distance(expected, x()),
    );
    const output = noGrad(() => model.forward(x()));
    expect(await onEveryRank(output)).toBe(output);
  });

  it('a pipeline with a loss gives what the model returns in eval() mode, whose backward() is refused', async () => {
    const model = await parallelize(layers(), pipeline({ ...options, loss: distance }));
    model.module.eval();
    const output = model.forward(x());
    await expectSame(output, layers().forward(x()));
    expect(() => distance(output, x()).backward()).toThrow(
      /a loss that is built outside of the stages cannot reach them.*Give the loss to the pipeline/,
    );
    const loss = model.forward(x(), x());
    loss.backward();
    await expectSame(loss, distance(layers().forward(x()), x()));
  });

  it('a pipeline with a loss needs the targets in training', async () => {
    const model = await parallelize(layers(), pipeline({ ...options, loss: distance }));
    expect(() => model.forward(x())).toThrow(
      /a training pass of a pipeline whose loss takes targets: 1 input, .*use noGrad\(\)/,
    );
  });

  it('a pipeline with a loss gives a loss that takes no targets in evaluation, too', async () => {
    const loss = (output: Tensor): Tensor => output.square().mean();
    const model = await parallelize(layers(), pipeline({ ...options, loss }));
    await expectSame(
      noGrad(() => model.forward(x())),
      loss(layers().forward(x())),
    );
  });

  it('a pipeline with a loss does not ask what microbatches weigh where no loss is computed', async () => {
    const weight = (_: unknown, targets: unknown): number => {
      if (targets === undefined) throw new TypeError('no targets');
      return 1;
    };
    const model = await parallelize(layers(), pipeline({ ...options, loss: distance, weight }));
    await expectSame(
      noGrad(() => model.forward(x())),
      layers().forward(x()),
    );
  });

  it('a pipeline with a loss gives a loss its optional parameters where they are passed, and their defaults elsewhere', async () => {
    const loss = (output: Tensor, targets: Tensor, factor = 1, weight?: number): Tensor =>
      distance(output, targets)
        .mul(factor)
        .mul(weight ?? 1);
    const model = await parallelize(layers(), pipeline({ ...options, loss }));
    const expected = distance(layers().forward(x()), x());
    const lossOf = (...others: [factor?: number, weight?: number]): Tensor =>
      noGrad(() => model.forward(x(), x(), ...others));
    await expectSame(lossOf(), expected);
    await expectSame(lossOf(3), expected.mul(3));
    await expectSame(lossOf(3, 2), expected.mul(6));
    expect(() => Reflect.apply(model.forward, model, [x(), x(), 1, 2, 3])).toThrow(
      /5 inputs; the model takes 1 of them and the loss at most 3/,
    );
  });

  it('a pipeline with a loss takes optional inputs of the model for no targets', async () => {
    class Scaled extends nn.Module {
      readonly layers = layers();
      forward(input: Tensor, factor = 2): Tensor {
        return this.layers.forward(input).mul(factor);
      }
    }
    const strategy = pipeline({ ...options, cut: ['layers.1'], loss: distance });
    const model = await parallelize(new Scaled(), strategy);
    const output = layers().forward(x());
    await expectSame(
      noGrad(() => model.forward(x(), undefined, x())),
      distance(output.mul(2), x()),
    );
    await expectSame(
      noGrad(() => model.forward(x(), 3)),
      output.mul(3),
    );
    await expectSame(
      noGrad(() => model.forward(x())),
      output.mul(2),
    );
    expect(() => Reflect.apply(model.forward, model, [x(), x()])).toThrow(
      /2 inputs, and the model takes all of them.*with undefined for optional inputs/,
    );
  });

  it('a pipeline with a loss is told how many inputs a model takes whose forward() does not say it', async () => {
    class Any extends nn.Module {
      readonly layers = layers();
      forward(...inputs: [Tensor]): Tensor {
        return this.layers.forward(inputs[0]);
      }
    }
    const own = { ...options, cut: ['layers.1'], loss: distance };
    const unknown = await parallelize(new Any(), pipeline(own));
    expect(() => unknown.forward(x(), x())).toThrow(
      /of Any, .*cannot be counted\. .*pipeline\(\{ inputs: 1/,
    );
    const model = await parallelize(new Any(), pipeline({ ...own, inputs: 1 }));
    await expectSame(
      noGrad(() => model.forward(x(), x())),
      distance(layers().forward(x()), x()),
    );
  });

  it('a pipeline with a loss is refused where it takes nothing', () => {
    expect(() => pipeline({ ...options, loss: () => x() })).toThrow(
      /the loss of a pipeline: a function without parameters/,
    );
  });
});

describe('the parameters of a function', () => {
  it.each([
    ['none', '() => 1', 0],
    ['one without brackets', 'async a=>a', 1],
    ['those of a method', 'forward(a, b) { return a + b; }', 2],
    ['defaults', "later(a = ')', b = [1, (2, 3)], { c } = { c: `,` }) {}", 3],
    ['comments between them', 'function (a /* , b */, c // , d\n) {}', 2],
    ['a comma behind the last', '(a, b,) => 1', 2],
    ['as many as come', '(a, ...all) => all', Number.POSITIVE_INFINITY],
    ['nobody knows, of a bound function', 'function () { [native code] }', null],
  ])('are counted: %s', (_, source, count) => {
    expect(parameterCount(source)).toBe(count);
  });
});
