import { connectServers } from '@shardwise/parameter-server/node';
import { fromData, manualSeed, nn, optim, type Tensor } from '@shardwise/core';
import { type Consistency, parameterServer } from '@shardwise/parameter-server';
import { ddp, parallelize } from '@shardwise/strategies';
import type { RankContext } from '@shardwise/testing/ranks';
import { z } from 'zod';
import { join } from '../../../../test/ranks/join.ts';

const steps = 4;

const data = z.object({
  secret: z.string(),
  /** The addresses of servers, by the name of the training that uses them. */
  servers: z.record(z.string(), z.array(z.object({ host: z.string(), port: z.number() }))),
});

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

const optimizers = {
  SGD: (model: nn.Module) => new optim.SGD(model.parameters(), { lr: 0.1, momentum: 0.9 }),
  AdamW: (model: nn.Module) =>
    new optim.AdamW([
      { params: [...model.parameters()].slice(0, 2), lr: 0.01, weightDecay: 0.1 },
      { params: [...model.parameters()].slice(2, 6) },
    ]),
} as const;

/** Returns the parameters after each step, under `ddp` and on servers. */
export async function main(context: RankContext): Promise<Record<string, number[][]>> {
  await join(context);
  const { secret, servers } = data.parse(context.data);
  const results: Record<string, number[][]> = {};
  for (const [name, make] of Object.entries(optimizers)) {
    results[`ddp ${name}`] = await train(context, make, ddp({ findUnusedParameters: true }));
    const addresses = servers[name] ?? [];
    const connected = connectServers({ addresses, secret });
    const consistency: Consistency = 'synchronous';
    const strategy = parameterServer({ servers: connected, consistency, bucketBytes: 256 });
    results[`servers ${name}`] = await train(context, make, strategy);
    await connected.close();
  }
  return results;
}

async function train(
  { rank }: RankContext,
  make: (model: nn.Module) => optim.Optimizer,
  strategy: Parameters<typeof parallelize>[1],
): Promise<number[][]> {
  // The servers start with the values of worker 0.
  manualSeed(strategy.name === 'ddp' ? 1 : 1 + rank);
  const model = new Mlp();
  const parallel = await parallelize(model, strategy);
  const optimizer = make(model);
  const parameters: number[][] = [];
  for (let step = 0; step < steps; step++) {
    for (const group of optimizer.paramGroups) group.lr *= 0.9;
    const x = fromData(
      Float32Array.from({ length: 14 }, (_, index) => Math.sin(index + 31 * rank + 7 * step)),
      [2, 7],
      'f32',
    );
    parallel.forward(x).square().mean().backward();
    await optimizer.step();
    optimizer.zeroGrad();
    const used = model.namedParameters().filter(([name]) => !name.startsWith('unused'));
    const values: number[] = [];
    for (const [, parameter] of used) values.push(...((await parameter.data()) as Float32Array));
    parameters.push(values);
  }
  return parameters;
}
