// What a user can get wrong without a word. Each of these once gave wrong numbers, lost work or told nothing;
// each is right now, or an error that says what to do.
import { mkdir, mkdtemp, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as nextTurn } from 'node:timers/promises';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { cpu } from '@shardwise/backend-cpu';
import { createThreadsWorld, singleGroup } from '@shardwise/collectives';
import { ddp, fsdp, OffloadedOptimizer, parallelize, zero } from '@shardwise/strategies';
import { interpreter, spawnRanks } from '@shardwise/testing';
import * as sw from '@shardwise/core';
import { loadCheckpoint, loadModel, loadOptimizer, saveCheckpoint } from 'shardwise';
import { beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { z } from 'zod';
import { found } from './ranks/strategy-traps.ts';
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

// --- numbers

// --- modules and options

describe('optimizers', () => {
  it('an OffloadedOptimizer updates what its optimizer has and the model has not', async () => {
    const temperature = sw.tensor([1]).requiresGrad_();
    const adam = new sw.SGD([temperature], { lr: 1 });
    const pages = { states: sw.hostPages() };
    const optimizer = new OffloadedOptimizer(new sw.Linear(1, 1), adam, pages);
    temperature.sum().backward();
    await optimizer.step();
    expect(await temperature.item()).toBe(0);
  });

  it('states of AdamW8bit are saved in a form that can be loaded', async () => {
    const directory = await mkdtemp(join(tmpdir(), 'shardwise-traps-'));
    const train = async (model: sw.Linear, optimizer: sw.AdamW8bit): Promise<void> => {
      optimizer.zeroGrad();
      model
        .forward(sw.ones([1, 80]))
        .square()
        .sum()
        .backward();
      await optimizer.step();
    };
    const [first, second] = [new sw.Linear(80, 80), new sw.Linear(80, 80)];
    const [saved, loaded] = [first, second].map((model) => new sw.AdamW8bit(model.parameters()));
    if (saved === undefined || loaded === undefined) throw new RangeError('two optimizers');
    await train(first, saved);
    await saveCheckpoint(directory, { step: 1, model: first, optimizer: saved });
    const checkpoint = await loadCheckpoint(directory);
    await loadModel(checkpoint, second);
    await loadOptimizer(checkpoint, second, loaded);
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
    expect(await sw.totalGradNorm([x, empty], options).item()).toBe(6);
  });
});

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

  it('an optimizer made before parallelize is refused: it has parameters that the model has no more', async () => {
    sw.setRank({ device: interpreter(), mesh: new sw.LineMesh('dp', singleGroup()) });
    const net = new sw.Linear(2, 1);
    const { weight } = net;
    const optimizer = new sw.Adam(net.parameters());
    const model = await parallelize(net, fsdp());
    model
      .forward(sw.ones([1, 2]))
      .sum()
      .backward();
    await expect(optimizer.step()).rejects.toThrow(/Make optimizers after parallelize/);
    expect(() => weight.square().sum()).toThrow(/another one in its place.*'weight'/);
  });

  it.each([
    ['ddp', (): sw.Strategy<sw.Module> => ddp()],
    ['zero', () => zero({ stage: 2 })],
    ['fsdp', () => fsdp()],
  ])(
    'an update with gradients of one rank alone, all from noSync, is refused: %s',
    async (_, of) => {
      sw.setRank({ device: interpreter(), mesh: new sw.LineMesh('dp', singleGroup()) });
      const model = await parallelize(new sw.Linear(2, 1), of());
      const optimizer = new sw.SGD(model.module.parameters());
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

  it('a parameter without elements trains under fsdp', async () => {
    sw.setRank({ device: await cpu(), mesh: new sw.LineMesh('dp', singleGroup()) });
    const net = new sw.Linear(2, 1);
    net.bias = new sw.Parameter(new Float32Array(), [0, 1]);
    const { module } = await parallelize(net, fsdp());
    module.weight
      .sum()
      .add(module.bias?.sum() ?? 0)
      .backward();
    await new sw.SGD(module.parameters()).step();
    expect((await module.bias?.data())?.length).toBe(0);
  });

  it('a forward pass in gradient mode that nobody calls backward() of leaves nothing behind', async () => {
    sw.setRank({ device: interpreter(), mesh: new sw.LineMesh('dp', singleGroup()) });
    const seen: WeakRef<sw.Node>[] = [];
    class Seen extends sw.Linear {
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
    const net = new sw.Sequential(new sw.Linear(2, 1), new sw.Linear(2, 1));
    const { module } = await parallelize(net, ddp());
    module
      .at(0)
      ?.forward(sw.ones([1, 2]))
      .sum()
      .backward();
    const step = new sw.SGD(module.parameters()).step();
    await expect(step).rejects.toThrow(/2 of 4 parameters got no gradient.*1\.bias, 1\.weight/);
  });

  describe('on two ranks', () => {
    let ranks: readonly z.infer<typeof found>[] = [];
    beforeAll(async () => {
      const url = new URL('./ranks/strategy-traps.ts', import.meta.url);
      const world = createThreadsWorld({ size: 2 });
      const data = await mkdtemp(join(tmpdir(), 'shardwise-traps-'));
      ranks = z.array(found).parse(await spawnRanks(2, url, { world, data }));
    });

    it.each([
      ['two losses', 'with different parameters add up, and are averaged', [-1.5, -1.5]],
      ['frozen, then released', 'as in a GAN, a parameter is averaged again', [-1.5]],
      ['frozen after parallelize', 'a parameter does not count as unused', [-1.5, 0]],
      [
        'a parameter used outside of forward',
        'as a temperature in the loss, it is whole under zero 1 to 3 and fsdp, and trains',
        [-6, -1.5, -6, -1.5, -6, -1.5, -6, -1.5],
      ],
      ['stateDict()', 'under fsdp is that of the whole model', [1, 2, 3]],
      ['ranks that differ', 'are not saved as if they had the same (CHECKPOINT)', [10]],
      ['evaluation after training', "all ranks use rank 0's buffers", [1]],
    ])('%s: %s', (name, _, values) => {
      expect(ranks.map((rank) => rank[name])).toEqual([values, values]);
    });
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
