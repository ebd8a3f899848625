// What a user can get wrong without a word. Each of these once gave wrong numbers, lost work or told nothing;
// each is right now, or an error that says what to do.
import { mkdir, mkdtemp, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { singleGroup } from '@shardwise/collectives';
import {
  ddp,
  distributeTensor,
  parallelize,
  vocabParallelCrossEntropy,
} from '@shardwise/strategies';
import { interpreter } from '@shardwise/testing';
import * as sw from '@shardwise/core';
import { beforeEach, describe, expect, it } from 'vitest';
import { repository } from './support/documents.ts';
import type { Ended } from './support/run-command.ts';
import { runShardwise } from './support/run-shardwise.ts';

beforeEach(() => sw.setRank({ device: interpreter() }));

describe('gradients', () => {
  it('noGrad with an async body is refused: it would end at the first await', async () => {
    const x = sw.tensor([1, 2]).requiresGrad_();
    const body = async (): Promise<number> => x.square().sum().item();
    expect(() => sw.noGrad(body)).toThrow(/noGrad with a body that returns a promise.*await/s);
    expect(x.mul(2).requiresGrad).toBe(true);
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
    sw.functional.binaryCrossEntropyWithLogits(logits, targets, { reduction: 'sum' }).backward();
    expect(await logits.grad?.data()).toEqual(Float32Array.of(0.5, -0.5, 0));
  });

  it('clamp hands the whole gradient on at its bounds', async () => {
    const x = sw.tensor([-1, 1]).requiresGrad_();
    x.clamp(-1, 1).sum().backward();
    expect(await x.grad?.data()).toEqual(Float32Array.of(1, 1));
  });

  it('a label that is no class trains nothing else, but says so, with the line', async () => {
    const labels = sw.tensor([-1, 1], 'i32');
    const loss = sw.functional.crossEntropy(sw.zeros([2, 3]), labels);
    await expect(loss.item()).rejects.toThrow(
      /crossEntropy at .*traps\.test\.ts:\d+:\d+: label -1 at element 0, where labels go from 0 to 2/,
    );
  });

  it('an index that there is no row for does not wrap: embedding, gather and oneHot say so', async () => {
    const index = sw.tensor([-1], 'i32');
    const rows = sw.ones([3, 1]);
    await expect(sw.functional.embedding(index, rows).data()).rejects.toThrow(/embedding at/);
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
    await expect(tokens.embedding(rows).toLocal().data()).rejects.toThrow(/index 7 at element 1/);
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
    expect(await sw.functional.maxPool2d(image, 2).item()).toBeNaN();
    expect(await sw.tensor([1, Number.NaN, 9, Number.NaN]).argMax(0).item()).toBe(1);
  });

  it('a window beyond the image is refused, as vectors are whose lengths differ', () => {
    expect(() => sw.functional.maxPool2d(sw.ones([1, 1, 2, 2]), 3)).toThrow('an output of 0 × 0');
    expect(() => sw.ones([1]).matmul(sw.ones([3]))).toThrow('vectors of different lengths');
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

// --- modules and options

// --- optimizers

describe('strategies', () => {
  it('noSync with an async body is refused: ranks would communicate', async () => {
    sw.setRank({ device: interpreter(), mesh: new sw.LineMesh('dp', singleGroup()) });
    const model = await parallelize(new sw.Linear(2, 1), ddp());
    const body = async (): Promise<number> =>
      model
        .forward(sw.ones([1, 2]))
        .sum()
        .item();
    expect(() => model.noSync(body)).toThrow(/noSync with a body that returns a promise/);
  });
});

describe('runs and data', () => {
  it('a syntax error in the script is shown with file, line and column', async () => {
    const run = await runScript({ 'train.ts': 'const a = 1;\nconst b = (a + ;\n' });
    expect(run.exitCode).toBe(1);
    expect(run.stderr).toMatch(/SyntaxError: .*\n +at train\.ts:2:16\n +2 \| const b = \(a \+ ;\n/);
  });

  it('a mistake before the first step is not repeated by --max-restarts', async () => {
    const train = `import { ones } from 'shardwise'; console.log('begins'); ones([2]).matmul(ones([3]));`;
    const run = await runScript({ 'train.ts': train }, ['--max-restarts', '3']);
    expect(run.exitCode).toBe(1);
    expect(run.stdout.match(/begins/g)).toHaveLength(1);
    expect(run.stderr).toContain('Not started again');
  });

  it('report({ loss }) of a tensor is refused: the step would not be shown', async () => {
    const train = `import { init, ones } from 'shardwise';
const context = await init();
context.report({ step: 1, loss: ones([]).sum() });`;
    const run = await runScript({ 'train.ts': train });
    expect(run.stderr).toMatch(/to report loss: a Tensor\. Give a number: await ….item\(\)/);
  });

  it('a loader goes on with other ranks: no item is lost or comes twice', async () => {
    const world = (ranks: number, batchSize: number): sw.DataLoader<{ i: sw.NDArray<'i32'> }>[] =>
      Array.from({ length: ranks }, (_, rank) => {
        const dataset = new sw.ArrayDataset({
          i: sw.ndArray(Int32Array.from({ length: 24 }, (_, i) => i)),
        });
        const sampler = new sw.DistributedSampler({ dataset, numReplicas: ranks, rank });
        return new sw.DataLoader({ dataset, sampler, batchSize });
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

  it('a program that looks at one batch of a loader with workers ends', async () => {
    const files = {
      'train.ts': `import { DataLoader } from 'shardwise';
const dataset = { module: new URL('./data.ts', import.meta.url), length: 9 };
await new DataLoader({ dataset, workers: 1 })[Symbol.asyncIterator]().next();`,
      'data.ts': `const item = { data: Float32Array.of(1), shape: [1], dtype: 'f32' };
export default { length: 9, get: () => item };`,
    };
    expect((await runScript(files)).exitCode).toBe(0);
  });
});

/** `shardwise run` with these files in an empty folder, `train.ts` being the script. */
async function runScript(
  files: Readonly<Record<string, string>>,
  options: readonly string[] = [],
): Promise<Ended> {
  const cwd = await mkdtemp(join(tmpdir(), 'shardwise-trap-'));
  await writeFile(join(cwd, 'package.json'), '{"type":"module"}');
  await mkdir(join(cwd, 'node_modules'));
  await symlink(
    join(repository, 'packages/shardwise'),
    join(cwd, 'node_modules/shardwise'),
    'junction',
  );
  for (const [name, text] of Object.entries(files)) await writeFile(join(cwd, name), text);
  return runShardwise(['run', ...options, 'train.ts'], { cwd });
}
