import { cpu } from '@shardwise/backend-cpu';
import { joinThreadsWorld, type ThreadsWorld } from '@shardwise/collectives';
import { fromData, LineMesh, nn, optim, setRank, type Strategy } from '@shardwise/core';
import { ddp, fsdp, parallelize, zero } from '@shardwise/strategies';
import type { RankContext } from '@shardwise/testing/ranks';
import { z } from 'zod';

export const layers = 20;
export const batch = 8;

/** The strategies of the model's states. `layerBytes` is the size of one layer. */
export const strategies: Readonly<Record<string, (layerBytes: number) => Strategy>> = {
  DDP: () => ddp(),
  'ZeRO-1': (layerBytes) => zero({ stage: 1, bucketBytes: layerBytes }),
  'ZeRO-2': (layerBytes) => zero({ stage: 2, bucketBytes: layerBytes }),
  'ZeRO-3': () => zero({ stage: 3 }),
  FSDP: () => fsdp(),
  'FSDP bf16': () => fsdp({ mixedPrecision: { parameterDtype: 'bf16' } }),
};

/** The memory of one rank's allocator. */
export const memory = z.object({
  /** The bytes of parameters, gradients and moments in use after a step. */
  statesBytes: z.number(),
  /** The most bytes in use at once in the third step. */
  peakBytes: z.number(),
});
export const memories = z.record(z.string(), memory);

export async function main({
  rank,
  world,
  data: { width },
}: RankContext<ThreadsWorld, { readonly width: number }>): Promise<z.infer<typeof memories>> {
  const group = joinThreadsWorld(world, rank);
  const region = world.regions[rank];
  if (region === undefined) throw new RangeError(`no region for rank ${rank}`);
  const found: Record<string, z.infer<typeof memory>> = {};
  for (const [name, strategy] of Object.entries(strategies)) {
    // Each measurement has its own allocator, so its high-water mark begins at zero.
    const device = await cpu({ memory: world.memory, ...region });
    setRank({ device, mesh: new LineMesh('dp', group) });
    const model = new nn.Sequential(
      ...Array.from({ length: layers }, () => new nn.Linear(width, width)),
    );
    const layerBytes = (width * width + width) * Float32Array.BYTES_PER_ELEMENT;
    const parallel = await parallelize(model, strategy(layerBytes));
    const optimizer = new optim.AdamW(model.parameters(), { lr: 1e-3 });
    for (let step = 0; step < 3; step++) {
      optimizer.zeroGrad();
      const x = fromData(new Float32Array(batch * width).fill(step + rank), [batch, width], 'f32');
      const loss = parallel.forward(x).mean();
      loss.backward();
      await optimizer.step();
      await loss.item();
    }
    const { bytesInUse, peakBytes } = device.usage();
    found[name] = { statesBytes: bytesInUse, peakBytes };
    await group.barrier();
  }
  group.close();
  return found;
}
