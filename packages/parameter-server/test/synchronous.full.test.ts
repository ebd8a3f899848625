import { cpu } from '@shardwise/backend-cpu';
import { startRequestServer } from '@shardwise/collectives/node';
import {
  fromData,
  manualSeed,
  nn,
  optim,
  setRank,
  type Strategy,
  type Tensor,
} from '@shardwise/core';
import { createParameterServer, parameterServer } from '@shardwise/parameter-server';
import { connectServers } from '@shardwise/parameter-server/node';
import { ddp, parallelize } from '@shardwise/strategies';
import { onRanks } from '@shardwise/testing/node';
import { describe, expect, it, onTestFinished } from 'vitest';
import { onCpu } from '../../../test/support/on-cpu.ts';
import { optimizers } from './direct-servers.ts';

const secret = 'a secret of the test';

class Mlp extends nn.Module {
  readonly up = new nn.Linear(7, 13);
  readonly norm = new nn.LayerNorm(13);
  readonly down = new nn.Linear(13, 5);
  readonly unused = new nn.Linear(3, 2);

  /** Shape: x [B, 7] -> [B, 5]. */
  forward(x: Tensor): Tensor {
    return this.down.forward(this.norm.forward(this.up.forward(x).gelu()));
  }
}

type MakeOptimizer = (model: Mlp) => optim.Optimizer;

/** Starts a server, and returns its address. */
async function startServer(
  server: number,
): Promise<{ readonly host: string; readonly port: number }> {
  const started = await createParameterServer({ server, optimizers });
  const listener = await startRequestServer({ secret, handler: started.handler });
  onTestFinished(async () => {
    listener.close();
    await started.close();
  });
  return { host: listener.host, port: listener.port };
}

/** Trains from the values of `seed`, and returns the parameters after each step. */
async function train(
  strategy: Strategy,
  makeOptimizer: MakeOptimizer,
  { rank, seed }: { readonly rank: number; readonly seed: number },
): Promise<readonly (readonly number[])[]> {
  manualSeed(seed);
  const model = new Mlp();
  const parallel = await parallelize(model, strategy);
  const optimizer = makeOptimizer(model);
  const afterSteps: number[][] = [];
  for (let step = 0; step < 4; step++) {
    for (const group of optimizer.paramGroups) group.lr *= 0.9;
    const x = fromData(
      Float32Array.from({ length: 14 }, (_, index) => Math.sin(index + 31 * rank + 7 * step)),
      [2, 7],
      'f32',
    );
    parallel.forward(x).square().mean().backward();
    await optimizer.step();
    optimizer.zeroGrad();
    const values: number[] = [];
    for (const [name, parameter] of model.namedParameters()) {
      if (!name.startsWith('unused')) values.push(...Array.from(await parameter.data(), Number));
    }
    afterSteps.push(values);
  }
  return afterSteps;
}

describe('three workers and two servers, synchronous', () => {
  it.each<[name: string, makeOptimizer: MakeOptimizer]>([
    ['SGD', (model) => new optim.SGD(model.parameters(), { lr: 0.1, momentum: 0.9 })],
    [
      'AdamW',
      (model) =>
        new optim.AdamW([
          { params: [...model.parameters()].slice(0, 2), lr: 0.01, weightDecay: 0.1 },
          { params: [...model.parameters()].slice(2, 6) },
        ]),
    ],
  ])('train by %s to the bits of DDP', async (_, makeOptimizer) => {
    setRank({ device: await cpu() });
    const addresses = [await startServer(0), await startServer(1)];
    await onRanks(
      3,
      async ({ rank }) => {
        const byDdp = ddp({ findUnusedParameters: true });
        const expected = await train(byDdp, makeOptimizer, { rank, seed: 1 });
        const servers = connectServers({ addresses, secret });
        const onServers = parameterServer({
          servers,
          consistency: 'synchronous',
          bucketBytes: 256,
        });
        // The servers start with the values of worker 0.
        const found = await train(onServers, makeOptimizer, { rank, seed: 1 + rank });
        await servers.close();
        expect(found).toEqual(expected);
      },
      onCpu,
    );
  });
});
