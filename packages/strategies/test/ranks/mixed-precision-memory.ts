import { cpu } from '@shardwise/backend-cpu';
import { joinThreadsWorld, type ThreadsWorld } from '@shardwise/collectives';
import { fromData, LineMesh, nn, optim, setRank, statistics, type Strategy } from '@shardwise/core';
import { collectivesOf, ddp, fsdp, parallelize, zero } from '@shardwise/strategies';
import type { RankContext } from '@shardwise/testing/ranks';
import { z } from 'zod';

export const layers = 8;
export const width = 256;
/** Ψ, the number of elements of the model. */
export const elements = layers * (width * width + width);
const batch = 4;
const mixedPrecision = { parameterDtype: 'bf16' } as const;

export const strategies: Readonly<Record<string, () => Strategy>> = {
  DDP: () => ddp({ mixedPrecision }),
  'ZeRO-1': () => zero({ stage: 1, mixedPrecision }),
  'ZeRO-2': () => zero({ stage: 2, mixedPrecision }),
  'ZeRO-3': () => zero({ stage: 3, mixedPrecision }),
  FSDP: () => fsdp({ mixedPrecision }),
};

const measured = z.object({
  /** The bytes that the allocator has in use after a step. */
  statesBytes: z.number(),
  /** The bytes of a step's collectives, counted in the way in which the plan counts them. */
  stepBytes: z.number(),
  planBytes: z.number(),
});
export const measurements = z.record(z.string(), measured);

export async function main({
  rank,
  world,
}: RankContext<ThreadsWorld>): Promise<z.infer<typeof measurements>> {
  const group = joinThreadsWorld(world, rank);
  const region = world.regions[rank];
  if (region === undefined) throw new RangeError(`no region for rank ${rank}`);
  const found: Record<string, z.infer<typeof measured>> = {};
  for (const [name, strategy] of Object.entries(strategies)) {
    const device = await cpu({ memory: world.memory, ...region });
    setRank({ device, mesh: new LineMesh('dp', group) });
    const model = new nn.Sequential(
      ...Array.from({ length: layers }, () => new nn.Linear(width, width)),
    );
    const specs = model.namedParameters().map(([parameterName, { shape, dtype, requiresGrad }]) => {
      return { name: parameterName, shape, dtype, requiresGrad };
    });
    const plan = strategy().plan({ parameters: specs }, [{ name: 'dp', size: group.size }]);
    const parallel = await parallelize(model, strategy());
    const optimizer = new optim.AdamW(model.parameters());
    let stepBytes = 0;
    for (let step = 0; step < 3; step++) {
      const before = statistics().collectiveBytes;
      optimizer.zeroGrad();
      const x = fromData(new Float32Array(batch * width).fill(step + rank), [batch, width], 'f32');
      const loss = parallel.forward(x).mean();
      loss.backward();
      await optimizer.step();
      await loss.item();
      stepBytes = statistics().collectiveBytes - before;
    }
    const planBytes = collectivesOf(plan)
      .filter(({ when }) => when !== 'start')
      .reduce((sum, { bytes }) => sum + bytes, 0);
    found[name] = { statesBytes: device.usage().bytesInUse, stepBytes, planBytes };
    await group.barrier();
  }
  group.close();
  return found;
}
