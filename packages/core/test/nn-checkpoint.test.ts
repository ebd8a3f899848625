import { interpreter } from '@shardwise/testing';
import { beforeEach, describe, expect, test } from 'vitest';
import { activationBytes } from '../src/autograd/activation-bytes.ts';
import { checkpoint, keepProducts, type CheckpointPolicy } from '../src/nn/checkpoint.ts';
import { BatchNorm2d } from '../src/nn/batch-norm2d.ts';
import { dropout } from '../src/nn/functional/dropout.ts';
import { Linear } from '../src/nn/linear.ts';
import { manualSeed } from '../src/random/keys.ts';
import { setRank } from '../src/rank.ts';
import { fromData } from '../src/tensor/create.ts';
import type { Tensor } from '../src/tensor/tensor.ts';
import { statistics, subscribe } from '../src/timeline.ts';

beforeEach(() => {
  setRank({ device: interpreter() });
  manualSeed(0);
});

type Wrap = (forward: () => Tensor) => Tensor;
const plain: Wrap = (forward) => forward();
const policies: readonly (readonly [string, CheckpointPolicy | undefined])[] = [
  ['everything made again', undefined],
  ['products kept', keepProducts],
  ['everything kept', () => 'keep'],
];

function layers(): Linear[] {
  manualSeed(1);
  return Array.from({ length: 4 }, () => new Linear(5, 5));
}

function loss(model: readonly Linear[], wrap: Wrap): Tensor {
  let x = fromData(Float32Array.from({ length: 15 }, Math.sin), [3, 5], 'f32');
  for (const layer of model) {
    const input = x;
    x = wrap(() => dropout(layer.forward(input).tanh(), 0.3).exp().log().add(input));
  }
  return x.mul(x).mean();
}

async function gradients(wrap: Wrap): Promise<readonly unknown[]> {
  const model = layers();
  const value = loss(model, wrap);
  value.backward();
  const grads = model.flatMap((layer) => layer.parameters().map(({ grad }) => grad?.data()));
  return Promise.all([value.data(), ...grads]);
}

describe('checkpoint', () => {
  test.each(policies)('gives the same bits, with %s', async (_, policy) => {
    const wrap: Wrap = (forward) => checkpoint(forward, policy === undefined ? {} : { policy });
    expect(await gradients(wrap)).toEqual(await gradients(plain));
  });

  test('may be nested', async () => {
    const wrap: Wrap = (forward) => checkpoint(() => checkpoint(forward).mul(1));
    expect(await gradients(wrap)).toEqual(await gradients(plain));
  });

  test('makes again, within another, what the inner one keeps', () => {
    const x = fromData(new Float32Array(5), [5], 'f32').requiresGrad_();
    const keepExp: CheckpointPolicy = ({ op }) => (op === 'exp' ? 'keep' : 'recompute');
    const inner = (): Tensor => checkpoint(() => x.exp().sin().exp(), { policy: keepExp });
    // Two exponentials of 5 elements of 4 bytes, or the result alone.
    expect(activationBytes(inner().sum())).toBe(2 * 5 * 4);
    expect(activationBytes(checkpoint(inner).sum())).toBe(5 * 4);
  });

  test('compiles one program for what equal layers make again', async () => {
    const before = statistics().programsCompiled;
    await gradients((forward) => checkpoint(forward));
    // Forward with the loss' gradient, the last layer's backward, the inner ones', the first's.
    expect(statistics().programsCompiled - before).toBeLessThanOrEqual(4);
  });

  test('cuts the program where backward begins to make a layer again', async () => {
    let segments = 0;
    const stop = subscribe(({ category }) => {
      segments += category === 'compute' ? 1 : 0;
    });
    await gradients((forward) => checkpoint(forward));
    stop();
    expect(segments).toBe(5);
  });

  test('updates running statistics once', async () => {
    const statisticsOf = async (wrap: Wrap): Promise<unknown> => {
      const norm = new BatchNorm2d(2);
      const x = fromData(Float32Array.from({ length: 16 }, Math.cos), [2, 2, 2, 2], 'f32');
      const input = x.requiresGrad_().mul(2);
      wrap(() => norm.forward(input).tanh())
        .mean()
        .backward();
      await x.grad?.realize();
      return Promise.all([norm.runningMean.data(), x.grad?.data()]);
    };
    expect(await statisticsOf((forward) => checkpoint(forward))).toEqual(await statisticsOf(plain));
  });
});
