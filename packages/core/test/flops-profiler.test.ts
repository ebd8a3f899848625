import { mkdtemp, readFile, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { inspect } from 'node:util';
import { cpu } from '@shardwise/backend-cpu';
import { beforeEach, describe, expect, test } from 'vitest';
import { rankState } from '../src/ambient.ts';
import { nn, optim } from '../src/index.ts';
import { flopsProfiler } from '../src/nn/profile/flops-profiler.ts';
import { getModelProfile } from '../src/nn/profile/get-model-profile.ts';
import { setRank } from '../src/rank.ts';
import { ConfigError } from '../src/spec/errors.ts';
import { ones, zeros } from '../src/tensor/create.ts';
import type { Tensor } from '../src/tensor/tensor.ts';

/** LeNet-5 as in the tests of DeepSpeed's profiler. */
class LeNet5 extends nn.Module {
  features = new nn.Sequential(
    new nn.Conv2d(1, 6, 5),
    new nn.Tanh(),
    new nn.AvgPool2d(2),
    new nn.Conv2d(6, 16, 5),
    new nn.Tanh(),
    new nn.AvgPool2d(2),
    new nn.Conv2d(16, 120, 5),
    new nn.Tanh(),
  );
  classifier = new nn.Sequential(new nn.Linear(120, 84), new nn.Tanh(), new nn.Linear(84, 10));
  forward(x: Tensor): { logits: Tensor; probabilities: Tensor } {
    const logits = this.classifier.forward(this.features.forward(x).flatten(1));
    return { logits, probabilities: logits.softmax() };
  }
}

/** A function of tensors as a model. */
class Of<Inputs extends readonly Tensor[]> extends nn.Module {
  readonly #make: (...inputs: Inputs) => Tensor;
  constructor(make: (...inputs: Inputs) => Tensor) {
    super();
    this.#make = make;
  }
  forward(...inputs: Inputs): Tensor {
    return this.#make(...inputs);
  }
}

class Block extends nn.Module {
  up = new nn.Linear(6, 8, { bias: false });
  down = new nn.Linear(8, 6, { bias: false });
  forward(x: Tensor): Tensor {
    return x.add(this.down.forward(this.up.forward(x).gelu()));
  }
}

const random = (...shape: number[]): Tensor => ones(shape).mul(0.5);

beforeEach(async () => setRank({ device: await cpu() }));

describe("a model's profile", () => {
  test("counts what DeepSpeed's tests pin: a linear layer, and LeNet-5 with a batch of 1024", async () => {
    const linear = await getModelProfile(new nn.Linear(10, 10), { args: [ones([1, 10])] });
    expect(linear).toMatchObject({ flops: 200, macs: 100, params: 110 });
    const lenet = await getModelProfile(new LeNet5(), { args: [zeros([1024, 1, 32, 32])] });
    expect(lenet).toMatchObject({ flops: 866_076_672, macs: 426_516_480, params: 61_706 });
  });

  test('counts sums, products, norms and activations for each element, as DeepSpeed does', async () => {
    const flopsIn = async (model: Of<[Tensor]> | nn.LayerNorm | nn.BatchNorm2d, x: Tensor) =>
      (await getModelProfile(model, { args: [x] })).flops;
    expect(await flopsIn(new Of((x) => x.mul(2).add(x)), random(3, 4))).toBe(2 * 12);
    expect(await flopsIn(new Of((x) => x.sub(1).tanh().sigmoid()), random(3, 4))).toBe(0);
    expect(await flopsIn(new Of((x) => x.gelu().softmax()), random(3, 4))).toBe(2 * 12);
    expect(await flopsIn(new nn.LayerNorm(4), random(3, 4))).toBe(5 * 12);
    const norm = new nn.BatchNorm2d(2);
    expect(await flopsIn(norm, random(3, 2, 4, 4))).toBe(5 * 96);
    norm.eval();
    expect(await flopsIn(norm, random(3, 2, 4, 4))).toBe(2 * 96);
  });

  test.each([
    ['a product of matrices', 240, (a: Tensor, b: Tensor) => a.matmul(b), [4, 5], [5, 6]],
    ['a batch of products', 720, (a: Tensor, b: Tensor) => a.matmul(b), [3, 4, 5], [3, 5, 6]],
    [
      'a convolution',
      28_800,
      (x: Tensor, w: Tensor) => nn.functional.conv2d(x, w, null, { padding: 1 }),
      [2, 3, 6, 6],
      [6, 3, 4, 4],
    ],
    [
      'a convolution along a line',
      1440,
      (x: Tensor, w: Tensor) => nn.functional.conv1d(x, w, null, { padding: 1 }),
      [2, 3, 6],
      [6, 3, 4],
    ],
    [
      'attention',
      134_217_728,
      (q: Tensor, k: Tensor) => nn.functional.scaledDotProductAttention(q, k, k),
      [4, 8, 128, 64],
      [4, 8, 128, 64],
    ],
    [
      'attention to more keys',
      268_435_456,
      (q: Tensor, k: Tensor) => nn.functional.scaledDotProductAttention(q, k, k),
      [4, 8, 128, 64],
      [4, 8, 256, 64],
    ],
  ] as const)("counts %s as PyTorch's FlopCounterMode", async (_, flops, make, a, b) => {
    const model = new Of(make);
    const found = await getModelProfile(model, {
      args: [random(...a), random(...b)],
      convention: 'pytorch',
      warmUp: 0,
    });
    expect(found.flops).toBe(flops);
  });

  test('does not take pools for products', async () => {
    const pool = new Of((x: Tensor) => nn.functional.avgPool2d(x, 2));
    const args = [random(1, 2, 4, 4)] as const;
    expect((await getModelProfile(pool, { args, convention: 'pytorch' })).flops).toBe(0);
    expect((await getModelProfile(pool, { args })).flops).toBe(32);
  });

  test.each([
    ['maxPool2d', (x: Tensor) => nn.functional.maxPool2d(x, 2)],
    ['maxPool2d with padding', (x: Tensor) => nn.functional.maxPool2d(x, 3, { padding: 1 })],
    ['maxPool1d', (x: Tensor) => nn.functional.maxPool1d(x.flatten(2), 2)],
    ['avgPool1d', (x: Tensor) => nn.functional.avgPool1d(x.flatten(2), 2)],
    ['adaptiveAvgPool1d', (x: Tensor) => nn.functional.adaptiveAvgPool1d(x.flatten(2), 3)],
    ['adaptiveAvgPool2d', (x: Tensor) => nn.functional.adaptiveAvgPool2d(x, [2, 3])],
  ] as const)('counts each element of the input of %s', async (_, pool) => {
    const args = [random(3, 2, 4, 6)] as const;
    expect((await getModelProfile(new Of(pool), { args })).flops).toBe(144);
    const after = new Of((x: Tensor) => pool(x).mul(2));
    const more = (await getModelProfile(after, { args })).flops;
    expect(more).toBe(144 + pool(args[0]).numel);
    expect((await getModelProfile(new Of(pool), { args, convention: 'pytorch' })).flops).toBe(0);
  });

  test('of generate() counts all passes that it makes', async () => {
    class Generator extends nn.Module {
      readonly next = new nn.Linear(4, 4, { bias: false });
      async generate(x: Tensor, tokens: number): Promise<Tensor> {
        let last = x;
        for (let index = 0; index < tokens; index++) {
          last = this.next.forward(last);
          await last.realize();
        }
        return last;
      }
    }
    const model = new Generator();
    const found = await getModelProfile(model, { args: [ones([1, 4]), 5], mode: 'generate' });
    expect(found).toMatchObject({ flops: 5 * 32, macs: 5 * 16, forwardMs: undefined });
    const [, layer] = found.modules;
    expect(layer).toMatchObject({ path: 'next', calls: 5, work: { forward: { flops: 5 * 32 } } });
    // @ts-expect-error no forward()
    await expect(getModelProfile(model, { args: [ones([1, 4]), 5] })).rejects.toThrow(
      /the model has no forward\(\)/,
    );
  });

  test('leaves out modules that are ignored, with what they call', async () => {
    const model = new nn.Sequential(new Block(), new nn.Linear(6, 3, { bias: false }));
    const args = [ones([2, 6])] as const;
    const found = await getModelProfile(model, { args, ignoreModules: [Block] });
    expect(found.flops).toBe(2 * 2 * 6 * 3);
  });

  test('prints totals, the largest modules by depth, and the tree', async () => {
    const model = new nn.Sequential(new Block(), new nn.Linear(6, 3, { bias: false }));
    const found = await getModelProfile(model, { args: [ones([2, 6])], topModules: 2 });
    expect(found.modules.every(({ forwardMs = 0 }) => forwardMs > 0)).toBe(true);
    const printed = inspect(found).replaceAll(/[\d.]+ (us|ms|s)\b/g, '0 ms');
    expect(
      printed
        .replaceAll(/[\d.]+% latency, [\d.]+ [KMG]?FLOPS/g, '0% latency, 0 FLOPS')
        .replaceAll(/(latency: +|latency +)[\d.]+ [KMG]?FLOPS/g, '$10 FLOPS'),
    ).toMatchInlineSnapshot(`
      "-------------------------------- Shardwise FLOPs profile --------------------------------
      The figures are those of this rank. The graph is counted as it ran; backward passes and recomputation are not estimated.

      world size:                                                           1
      params of the model:                                                  114
      params per rank:                                                      114
      fwd MACs per rank:                                                    228 MACs
      fwd flops per rank:                                                   484
      bwd flops per rank:                                                   0
      recomputation flops per rank:                                         0
      optimizer flops per rank:                                             0
      fwd latency:                                                          0 ms
      fwd FLOPS per rank = flops / latency:                                 0 FLOPS
      iter latency:                                                         0 ms
      iter FLOPS per rank = flops / latency:                                0 FLOPS

      Top 2 modules in terms of params, MACs or fwd latency at different depths:
      depth 0:
          params      - {'Sequential': '114'}
          MACs        - {'Sequential': '228 MACs'}
          fwd latency - {'Sequential': '0 ms'}
      depth 1:
          params      - {'Block': '96', 'Linear': '18'}
          MACs        - {'Block': '192 MACs', 'Linear': '36 MACs'}
          fwd latency - {'Block': '0 ms', 'Linear': '0 ms'}
      depth 2:
          params      - {'Linear': '96'}
          MACs        - {'Linear': '192 MACs'}
          fwd latency - {'Linear': '0 ms'}

      Sequential(
        114 = 100% Params, 228 MACs = 100% MACs, 0 ms = 0% latency, 0 FLOPS
        (0): Block(
          96 = 84.21% Params, 192 MACs = 84.21% MACs, 0 ms = 0% latency, 0 FLOPS
          (up): Linear(48 = 42.11% Params, 96 MACs = 42.11% MACs, 0 ms = 0% latency, 0 FLOPS, inFeatures=6, outFeatures=8, bias=false)
          (down): Linear(48 = 42.11% Params, 96 MACs = 42.11% MACs, 0 ms = 0% latency, 0 FLOPS, inFeatures=8, outFeatures=6, bias=false)
        )
        (1): Linear(18 = 15.79% Params, 36 MACs = 15.79% MACs, 0 ms = 0% latency, 0 FLOPS, inFeatures=6, outFeatures=3, bias=false)
      )
      -----------------------------------------------------------------------------------------"
    `);
  });

  test('writes outputFile in the place of what it contains, and creates its folder', async () => {
    const path = join(await mkdtemp(join(tmpdir(), 'profile-')), 'of', 'model.txt');
    const profile = async () =>
      getModelProfile(new Block(), { args: [ones([2, 6])], outputFile: path, moduleDepth: 0 });
    const first = await profile();
    expect(await readFile(path, 'utf8')).toBe(`${first.toString()}\n`);
    const second = await profile();
    expect(await readFile(path, 'utf8')).toBe(`${second.toString()}\n`);
    const profiler = flopsProfiler(new Block(), { outputFile: path });
    profiler.startProfile();
    expect(await readFile(path, 'utf8')).toBe(`${second.toString()}\n`);
    expect(`${profiler.stopProfile().toString()}\n`).toBe(await readFile(path, 'utf8'));
  });

  test('says before anything is counted that outputFile cannot be written', async () => {
    const folder = await mkdtemp(join(tmpdir(), 'profile-'));
    const profiler = flopsProfiler(new Block(), { outputFile: folder });
    expect(() => profiler.startProfile()).toThrow(ConfigError);
    expect(() => profiler.startProfile()).toThrow(
      /cannot be written: EISDIR.*Give the path of a file/s,
    );
    expect(rankState.observer).toBeNull();
    const file = join(folder, 'file');
    await writeFile(file, '');
    const below = getModelProfile(new Block(), {
      args: [ones([2, 6])],
      outputFile: join(file, 'below', 'model.txt'),
    });
    await expect(below).rejects.toThrow(/cannot be written: ENOTDIR/);
    expect(() => flopsProfiler(new Block(), { outputFile: '' })).toThrow(ConfigError);
  });

  test('refuses calls out of order, and options that are wrong', () => {
    const profiler = flopsProfiler(new Block());
    expect(() => profiler.stopProfile()).toThrow(ConfigError);
    profiler.startProfile();
    expect(() => profiler.startProfile()).toThrow(/it counts already/);
    profiler.stopProfile();
    // @ts-expect-error no such convention
    expect(() => flopsProfiler(new Block(), { convention: 'fvcore' })).toThrow(ConfigError);
    // @ts-expect-error no class of modules
    expect(() => flopsProfiler(new Block(), { ignoreModules: [Map] })).toThrow(ConfigError);
  });
});

describe('the profile of a training step', () => {
  const products = 2 * 2 * 6 * 8;

  async function profileOf(model: nn.Module, forward: () => Tensor, measured = false) {
    const optimizer = new optim.SGD(model.parameters(), { lr: 0.1 });
    const profiler = flopsProfiler(model, { convention: 'pytorch' });
    profiler.startProfile();
    const loss = forward();
    if (measured) await profiler.measureForward(loss);
    loss.backward();
    if (measured) await profiler.measureBackward();
    await optimizer.step();
    return profiler.stopProfile();
  }

  test('counts forward and backward passes by module', async () => {
    const model = new Block();
    const { work, modules } = await profileOf(model, () => model.forward(ones([2, 6])).sum());
    expect(work.forward.flops).toBe(2 * products);
    // The input needs no gradient.
    expect(work.backward.flops).toBe(3 * products);
    expect(work.recomputation.flops).toBe(0);
    const byPath = Object.fromEntries(
      modules.map(({ path, work: own }) => [path, own.backward.flops]),
    );
    expect(byPath).toEqual({ '': 3 * products, up: products, down: 2 * products });
  });

  test('counts what a backward pass computes again', async () => {
    const model = new Block();
    const { work, modules } = await profileOf(model, () =>
      nn.checkpoint(() => model.forward(ones([2, 6]))).sum(),
    );
    expect(work.forward.flops).toBe(2 * products);
    expect(work.backward.flops).toBe(3 * products);
    expect(work.recomputation.flops).toBe(products);
    expect(modules.find(({ path }) => path === 'up')?.work.recomputation.flops).toBe(products);
  });

  test('counts the same if times are measured, and changes no values', async () => {
    const [plain, measured] = [new Block(), new Block()];
    await measured.loadStateDict(await plain.stateDict());
    const one = await profileOf(plain, () => plain.forward(ones([2, 6])).sum());
    const other = await profileOf(measured, () => measured.forward(ones([2, 6])).sum(), true);
    expect(other.work).toEqual(one.work);
    expect(await measured.up.weight.data()).toEqual(await plain.up.weight.data());
    expect(other.forwardMs).toBeGreaterThan(0);
    expect(other.backwardMs).toBeGreaterThan(0);
  });

  test('counts updates for each element, as DeepSpeed counts sums and products', async () => {
    const model = new nn.Linear(2, 3, { bias: false });
    const optimizer = new optim.SGD(model.parameters(), { lr: 0.1 });
    const profiler = flopsProfiler(model);
    profiler.startProfile();
    model
      .forward(ones([1, 2]))
      .sum()
      .backward();
    await optimizer.step();
    const { optimizer: update } = profiler.stopProfile().work;
    expect(update.flops).toBeGreaterThan(0);
    expect(update.flops % 6).toBe(0);
    expect(update.macs).toBe(0);
  });

  test('costs nothing outside: nothing observes, and no module is wrapped', async () => {
    const model = new Block();
    expect(rankState.observer).toBeNull();
    const profiler = flopsProfiler(model);
    expect(rankState.observer).toBeNull();
    profiler.startProfile();
    await model.forward(ones([2, 6])).data();
    profiler.stopProfile();
    expect(rankState.observer).toBeNull();
    expect(model.namedModules().some(([, each]) => Object.hasOwn(each, 'forward'))).toBe(false);
  });
});
