import { cpu } from '@shardwise/backend-cpu';
import { singleGroup } from '@shardwise/collectives';
import { LineMesh, manualSeed, nn, optim, setRank, tensor, zeros } from '@shardwise/core';
import type { ParameterServers } from '@shardwise/parameter-server';
import { type Consistency, parameterServer } from '@shardwise/parameter-server';
import { explain, parallelize } from '@shardwise/strategies';
import { beforeEach, describe, expect, it } from 'vitest';
import { directServers, startServers } from './direct-servers.ts';

beforeEach(async () => setRank({ device: await cpu(), mesh: new LineMesh('dp', singleGroup()) }));

const started = async (count: number): Promise<ParameterServers> => {
  const servers = await startServers(count);
  return directServers(servers.map(({ handler }) => handler));
};

describe('the plan of parameterServer()', () => {
  const axes = [{ name: 'dp', size: 2 }];
  const parameters = ['a', 'b'].map(
    (name) => ({ name, shape: [3], dtype: 'f32', requiresGrad: true }) as const,
  );

  it('prints what each server has', async () => {
    const text = explain(parameterServer({ servers: await started(2) }).plan({ parameters }, axes));
    expect(text).toContain('server 1  1 parameters  12 bytes pushed, 12 pulled');
  });

  it.each([
    [{ staleness: -1 }, /a staleness of -1.*whole number of steps from 0/],
    [{ staleness: 1.5 }, /a staleness of 1.5/],
    [{ backupWorkers: -1 }, /backupWorkers -1/],
    [{ elastic: { everySteps: 0, movingRate: 0.5 } }, /every 0 steps/],
    [{ elastic: { everySteps: 1, movingRate: 1.5 } }, /movingRate 1.5/],
    ['eventually', /the consistency 'eventually'/],
  ])('refuses %j', async (consistency, message) => {
    const servers = await started(1);
    expect(() => parameterServer({ servers, consistency: consistency as Consistency })).toThrow(
      message,
    );
  });

  it('refuses as many backup workers as there are workers, a second axis, and no servers', async () => {
    const backups = parameterServer({
      servers: await started(1),
      consistency: { backupWorkers: 2 },
    });
    expect(() => backups.plan({ parameters }, axes)).toThrow(/would wait for no worker/);
    const two = [...axes, { name: 'tp', size: 2 }];
    const strategy = parameterServer({ servers: await started(1) });
    expect(() => strategy.plan({ parameters }, two)).toThrow(/axis 'tp'/);
    expect(() => parameterServer({ servers: directServers([]) })).toThrow(/--servers 1/);
    const elastic = { elastic: { everySteps: 1, movingRate: 0.5 } } as const;
    const compressed = {
      consistency: elastic,
      compress: 'bf16',
      servers: await started(1),
    } as const;
    expect(() => parameterServer(compressed)).toThrow(/Leave compress out/);
  });
});

describe('a model on servers', () => {
  it('refuses to write to parameters, to save states, and to skip steps', async () => {
    const model = new nn.Linear(2, 1);
    const parallel = await parallelize(model, parameterServer({ servers: await started(1) }));
    const optimizer = new optim.SGD(model.parameters(), { lr: 1 });
    expect(() => model.weight.assign(zeros([1, 2]))).toThrow(/Load weights before parallelize/);
    parallel
      .forward(tensor([[1, 2]]))
      .sum()
      .backward();
    const skipIf = zeros([], 'bool');
    await expect(optimizer.step({ skipIf })).rejects.toThrow(/skipIf/);
    await optimizer.step();
    await expect(optimizer.stateDict()).rejects.toThrow(/updated by parameter servers/);
    expect(() => optimizer.buildStep()).toThrow(/updated by parameter servers/);
  });

  it.each(['bf16', 'f16'] as const)('sends gradients in half the bytes as %s', async (compress) => {
    const [server] = await startServers(1);
    if (server === undefined) throw new Error('no server');
    const model = new nn.Linear(3, 1, { bias: false });
    const before = (await model.weight.data()).slice();
    const servers = directServers([server.handler]);
    const parallel = await parallelize(
      model,
      parameterServer({ servers, consistency: 'asynchronous', compress }),
    );
    const optimizer = new optim.SGD(model.parameters(), { lr: 1 });
    // The second gradient has 13 binary digits after the point.
    parallel
      .forward(tensor([[1, 1 + 2 ** -13, -2]]))
      .sum()
      .backward();
    await optimizer.step();
    const after = await model.weight.data();
    const moved = [1, 1, -2].map((step, index) => Math.fround(Number(before[index]) - step));
    expect([...after]).toEqual(moved);
    expect(server.statistics.receivedBytes).toBe(3 * 2);
  });

  it('trains, asynchronous with one worker, to the bits of one rank', async () => {
    const train = async (isServed: boolean): Promise<readonly number[]> => {
      manualSeed(3);
      const model = new nn.Linear(3, 2);
      const strategy = parameterServer({ servers: await started(2), consistency: 'asynchronous' });
      if (isServed) await parallelize(model, strategy);
      const optimizer = new optim.SGD(model.parameters(), { lr: 0.1, momentum: 0.5 });
      for (let step = 0; step < 4; step++) {
        model
          .forward(tensor([[1, step, 2]]))
          .square()
          .sum()
          .backward();
        await optimizer.step();
        optimizer.zeroGrad();
      }
      return [...((await model.weight.data()) as Float32Array)];
    };
    expect(await train(true)).toEqual(await train(false));
  });
});
