import { readFileSync } from 'node:fs';
import { inspect } from 'node:util';
import { interpreter } from '@shardwise/testing';
import { beforeEach, describe, expect, test } from 'vitest';
import { BatchNorm2d } from '../src/nn/norm/batch-norm-layers.ts';
import { Conv2d } from '../src/nn/convolution/conv2d.ts';
import { Dropout } from '../src/nn/layers/dropout.ts';
import { Embedding } from '../src/nn/layers/embedding.ts';
import { maxPool2d } from '../src/nn/functional/pool2d.ts';
import { LayerNorm } from '../src/nn/norm/layer-norm.ts';
import { Linear } from '../src/nn/layers/linear.ts';
import { Module } from '../src/nn/module/module.ts';
import { ModuleList } from '../src/nn/containers/module-list.ts';
import { Parameter } from '../src/nn/parameter/parameter.ts';
import { Sequential } from '../src/nn/containers/sequential.ts';
import { summary } from '../src/nn/summary/summary.ts';
import { randomState } from '../src/random/keys.ts';
import { setRank } from '../src/rank.ts';
import { ConfigError } from '../src/spec/errors.ts';
import { statistics } from '../src/timeline.ts';
import { ones, zeros } from '../src/tensor/create.ts';
import type { Tensor } from '../src/tensor/tensor.ts';

// These are the models of tools/golden-flops.py.

class Mlp extends Module {
  up = new Linear(7, 13);
  norm = new LayerNorm(13);
  down = new Linear(13, 5, { bias: false });
  forward(x: Tensor): Tensor {
    return this.down.forward(this.norm.forward(this.up.forward(x).gelu()));
  }
}

class Cnn extends Module {
  conv1 = new Conv2d(1, 6, [3, 5], { padding: [1, 2] });
  conv2 = new Conv2d(6, 9, 3, { stride: 2, dilation: 2, groups: 3 });
  norm = new BatchNorm2d(9);
  head = new Linear(9 * 2 * 3, 5);
  forward(x: Tensor): Tensor {
    const pooled = maxPool2d(this.conv1.forward(x).relu(), 2, { stride: 1 });
    return this.head.forward(this.norm.forward(this.conv2.forward(pooled)).flatten(1));
  }
}

class Attention extends Module {
  tokens = new Embedding(11, 12);
  qkv = new Linear(12, 36);
  projection = new Linear(12, 12);
  head = new Linear(12, 11, { bias: false });
  constructor() {
    super();
    this.head.weight = this.tokens.weight;
  }
  attend(x: Tensor): Tensor {
    const [batch = 0, length = 0] = x.shape;
    const all = this.qkv.forward(x).reshape([batch, length, 3, 2, 6]).permute([2, 0, 3, 1, 4]);
    const [q, k, v] = [all.select(0, 0), all.select(0, 1), all.select(0, 2)];
    const y = q.matmul(k.transpose(-2, -1)).softmax().matmul(v);
    return this.projection.forward(y.transpose(1, 2).reshape([batch, length, 12]));
  }
  forward(indices: Tensor): Tensor {
    const x = this.tokens.forward(indices);
    return this.head.forward(x.add(this.attend(this.attend(x))));
  }
}

interface Counted {
  readonly output: readonly number[];
  readonly parameters: number;
  readonly flops: Readonly<Record<string, number>>;
}

const golden: Readonly<Record<'Mlp' | 'Cnn' | 'Attention', Counted>> = JSON.parse(
  readFileSync(new URL('golden/flops.json', import.meta.url), 'utf8'),
);

beforeEach(() => setRank({ device: interpreter() }));

describe('a summary', () => {
  test.each([
    ['Mlp', () => summary(new Mlp(), zeros([4, 3, 7]))],
    ['Cnn', () => summary(new Cnn(), zeros([2, 1, 9, 11]))],
    ['Attention', () => summary(new Attention(), zeros([2, 5], 'i32'))],
  ] as const)('counts the operations of %s as PyTorch does, by module', (name, make) => {
    const { modules, parameters, flops } = make();
    const { output, ...expected } = golden[name];
    expect(modules[0]?.output).toBe(`[${output.join(', ')}]`);
    const counted = modules.filter((module) => module.flops > 0);
    const byPath = Object.fromEntries(counted.map((module) => [module.path, module.flops]));
    expect({ parameters, flops: byPath }).toEqual(expected);
    expect(flops).toBe(expected.flops['']);
  });

  test('prints a row for each module, and totals', () => {
    class Net extends Module {
      tokens = new Embedding(100, 16);
      blocks = new ModuleList([new Sequential(new Linear(16, 64), new Linear(64, 16))]);
      head = new Linear(16, 100);
      forward(x: Tensor): { logits: Tensor; hidden: Tensor[] } {
        let y = this.tokens.forward(x);
        for (let pass = 0; pass < 3; pass++) for (const block of this.blocks) y = block.forward(y);
        return { logits: this.head.forward(y), hidden: [y] };
      }
    }
    const net = new Net();
    net.tokens.requiresGrad_(false);
    const result = summary(net, zeros([8, 32], 'i32'));
    expect(inspect(result)).toMatchInlineSnapshot(`
      "module                output                                     parameters   FLOPs
      Net                   logits [8, 32, 100], hidden.0 [8, 32, 16]       5,428  3.96 M
        tokens: Embedding   [8, 32, 16]                                     1,600       0
        blocks: ModuleList                                                  2,128  3.15 M
          0: Sequential     [8, 32, 16] ×3                                  2,128  3.15 M
            0: Linear       [8, 32, 64] ×3                                  1,088  1.57 M
            1: Linear       [8, 32, 16] ×3                                  1,040  1.57 M
        head: Linear        [8, 32, 100]                                    1,700   819 k

      5,428 parameters in 21.7 kB, 1,600 of them frozen, 3.96 MFLOPs forward"
    `);
    expect(String(result)).toBe(inspect(result));
    expect(String(summary(net))).toMatchInlineSnapshot(`
      "module                parameters
      Net                        5,428
        tokens: Embedding        1,600
        blocks: ModuleList       2,128
          0: Sequential          2,128
            0: Linear            1,088
            1: Linear            1,040
        head: Linear             1,700

      5,428 parameters in 21.7 kB, 1,600 of them frozen"
    `);
  });

  test('computes nothing, and leaves modes, random numbers, buffers and gradients as they were', async () => {
    const model = new Sequential(new Conv2d(1, 2, 3), new BatchNorm2d(2), new Dropout(0.5));
    model.at(1)?.eval();
    const before = { random: randomState(), state: await model.stateDict(), runs: statistics() };
    const modes = model.namedModules().map(([, { training }]) => training);
    const result = summary(model, ones([1, 1, 5, 5]));
    expect(result.modules.map(({ calls }) => calls)).toEqual([1, 1, 1, 1]);
    expect(statistics()).toEqual(before.runs);
    expect(randomState()).toEqual(before.random);
    expect(model.namedModules().map(([, { training }]) => training)).toEqual(modes);
    expect(await model.stateDict()).toEqual(before.state);
    expect(model.namedModules().every(([, module]) => !Object.hasOwn(module, 'forward'))).toBe(
      true,
    );
    expect(model.parameters().every(({ grad }) => grad === null)).toBe(true);
  });

  test('puts everything back where forward throws', () => {
    const model = new Sequential(new Linear(3, 4), new Linear(5, 6));
    expect(() => summary(model, ones([2, 3]))).toThrow('4 features (dim -1) instead of 5');
    expect(model.training).toBe(true);
    expect(Object.hasOwn(model, 'forward')).toBe(false);
  });

  test('counts what modules share once in the model', () => {
    const shared = new Linear(2, 2);
    const result = summary(new Sequential(new Sequential(shared), shared));
    expect(result.parameters).toBe(6);
    expect(result.modules.map(({ path, parameters }) => [path, parameters])).toEqual([
      ['', 6],
      ['0', 6],
      ['0.0', 6],
    ]);
  });

  test('refuses what is no whole module, and says what to pass', () => {
    const wrapped = { module: new Linear(1, 1), forward: (x: Tensor) => x };
    expect(() => summary(wrapped as never)).toThrow(ConfigError);
    expect(() => summary(wrapped as never)).toThrow('Pass its module: summary(model.module, …)');
    class Part extends Parameter {
      override get shardedOver(): readonly string[] {
        return ['dp'];
      }
    }
    const model = new Linear(1, 1, { bias: false });
    model.weight = new Part(new Float32Array(1), [1, 1]);
    expect(() => summary(model, ones([1, 1]))).toThrow(
      'the summary of Linear: this rank has a part of parameter weight, the others lie along dp. Ask for it before parallelize()',
    );
  });
});
