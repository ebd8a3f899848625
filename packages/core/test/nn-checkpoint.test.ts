import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { cpu } from '@shardwise/backend-cpu';
import { interpreter } from '@shardwise/testing';
import { beforeEach, describe, expect, test } from 'vitest';
import { activationBytes } from '../src/tensor/activation-bytes.ts';
import {
  checkpoint,
  type CheckpointOptions,
  type CheckpointPolicy,
  keepProducts,
  offloadProducts,
} from '../src/nn/checkpoint.ts';
import { BatchNorm2d } from '../src/nn/norm/batch-norm-layers.ts';
import { dropout } from '../src/nn/functional/dropout.ts';
import { Linear } from '../src/nn/layers/linear.ts';
import { filePages } from '../src/paging/file-pages.ts';
import { hostPages } from '../src/paging/page.ts';
import { SGD } from '../src/optim/sgd.ts';
import { manualSeed } from '../src/random/keys.ts';
import { ConfigError } from '../src/spec/errors.ts';
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
const ways: readonly (readonly [string, CheckpointOptions])[] = [
  ['everything made again', {}],
  ['products kept', { policy: keepProducts }],
  ['everything kept', { policy: () => 'keep' }],
  ['results outside the device', { pages: hostPages() }],
  ['products and results outside the device', { policy: offloadProducts, pages: hostPages() }],
  ['everything outside the device', { policy: () => 'offload', pages: hostPages() }],
];

function layers(): Linear[] {
  manualSeed(1);
  return Array.from({ length: 4 }, () => new Linear(5, 5));
}

function loss(model: readonly Linear[], wrap: Wrap): Tensor {
  let x = fromData(
    Float32Array.from({ length: 15 }, (_, i) => Math.sin(i)),
    [3, 5],
    'f32',
  );
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
  test.each(ways)('gives the same bits, with %s', async (_, options) => {
    const wrap: Wrap = (forward) => checkpoint(forward, options);
    expect(await gradients(wrap)).toEqual(await gradients(plain));
  });

  test('may be nested', async () => {
    const wrap: Wrap = (forward) => checkpoint(() => checkpoint(forward).mul(1));
    expect(await gradients(wrap)).toEqual(await gradients(plain));
    const pages = hostPages();
    const offloaded: Wrap = (forward) => {
      return checkpoint(() => checkpoint(forward, { pages }).mul(1), { pages });
    };
    expect(await gradients(offloaded)).toEqual(await gradients(plain));
  });

  test('refuses to offload without pages', () => {
    const [layer] = layers();
    const x = fromData(new Float32Array(5), [1, 5], 'f32');
    const run = (): unknown =>
      checkpoint(() => layer?.forward(x).exp(), { policy: () => 'offload' });
    expect(run).toThrow(ConfigError);
    expect(run).toThrow(/no pages/);
  });

  test('makes again, within another, what the inner one keeps', () => {
    const x = fromData(new Float32Array(5), [5], 'f32').requiresGrad_();
    const keepExp: CheckpointPolicy = ({ op }) => (op === 'exp' ? 'keep' : 'recompute');
    const inner = (): Tensor => checkpoint(() => x.exp().sin().exp(), { policy: keepExp });
    // The policy keeps two exponentials of 5 elements of 4 bytes each. An outer checkpoint keeps only the result.
    expect(activationBytes(inner().sum())).toBe(2 * 5 * 4);
    expect(activationBytes(checkpoint(inner).sum())).toBe(5 * 4);
  });

  test('compiles one program for what equal layers make again', async () => {
    const before = statistics().programsCompiled;
    await gradients((forward) => checkpoint(forward));
    // The programs are: forward with the gradient of the loss, backward of the last layer, of the inner layers, and of
    // the first.
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
      const x = fromData(
        Float32Array.from({ length: 16 }, (_, i) => Math.cos(i)),
        [2, 2, 2, 2],
        'f32',
      );
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

describe('activations outside the device', () => {
  const [rows, width, depth] = [512, 64, 12];
  const activationBytes = rows * width * Float32Array.BYTES_PER_ELEMENT;

  /** Returns the losses of three steps, and the peak memory in use in a step. */
  async function train(wrap: Wrap): Promise<{ losses: number[]; peakBytes: number }> {
    const device = await cpu();
    setRank({ device });
    manualSeed(1);
    const model = Array.from({ length: depth }, () => new Linear(width, width));
    const optimizer = new SGD(
      model.flatMap((layer) => layer.parameters()),
      { lr: 0.1 },
    );
    const losses: number[] = [];
    for (let step = 0; step < 3; step++) {
      optimizer.zeroGrad();
      const values = Float32Array.from({ length: rows * width }, (_, i) => Math.sin(i + step));
      let x = fromData(values, [rows, width], 'f32');
      for (const layer of model) {
        const input = x;
        x = wrap(() => layer.forward(input).tanh());
      }
      const loss = x.square().mean();
      loss.backward();
      await optimizer.step();
      losses.push(await loss.item());
    }
    return { losses, peakBytes: device.usage().peakBytes };
  }

  test('a step has a few layers of them there at once, and the same losses', async () => {
    const directory = await mkdtemp(join(tmpdir(), 'shardwise-activations-'));
    const kept = await train((forward) => checkpoint(forward));
    expect(kept.peakBytes).toBeGreaterThan(depth * activationBytes);
    await using files = await filePages(directory);
    for (const pages of [hostPages(), files]) {
      const offloaded = await train((forward) => checkpoint(forward, { pages }));
      expect(offloaded.losses).toEqual(kept.losses);
      expect(offloaded.peakBytes).toBeLessThan(kept.peakBytes - (depth - 6) * activationBytes);
    }
    await rm(directory, { recursive: true, force: true });
  });

  test('saving everything there makes nothing again', async () => {
    const plainly = await train(plain);
    const pages = hostPages();
    const offloaded = await train((forward) =>
      checkpoint(forward, { policy: () => 'offload', pages }),
    );
    expect(offloaded.losses).toEqual(plainly.losses);
    expect(offloaded.peakBytes).toBeLessThan(plainly.peakBytes - depth * activationBytes);
  });

  test('a forward pass alone moves nothing', async () => {
    const moved: string[] = [];
    const stop = subscribe(({ category, name }) => {
      if (category === 'transfer') moved.push(name);
    });
    const [layer] = layers();
    const x = fromData(new Float32Array(5), [1, 5], 'f32');
    await checkpoint(() => layer?.forward(x), { pages: hostPages() })?.data();
    stop();
    expect(moved).toEqual([]);
  });
});
