import { cpu } from '@shardwise/backend-cpu';
import { joinThreadsWorld, type ThreadsWorld } from '@shardwise/collectives';
import {
  fromData,
  hostPages,
  LineMesh,
  manualSeed,
  nn,
  optim,
  type PageStore,
  setRank,
  type Tensor,
} from '@shardwise/core';
import { currentSession } from '@shardwise/core/extend';
import { filePages } from '@shardwise/core/node';
import { constructSharded, fsdp, OffloadedOptimizer, parallelize } from '@shardwise/strategies';
import type { RankContext } from '@shardwise/testing/ranks';
import { z } from 'zod';

export const options = z.object({
  directory: z.string(),
  layers: z.number(),
  width: z.number(),
  kinds: z.array(z.enum(['none', 'host', 'disk'])),
  /** For each earlier pass of a step, whether its gradients are reduced over the ranks or wait. */
  earlierPasses: z.array(z.enum(['reduced', 'waiting'])),
});
export type Options = z.infer<typeof options>;

export const offloaded = z.object({
  losses: z.array(z.number()),
  /** The high-water mark of the allocator. */
  peakBytes: z.number(),
  residentBytes: z.number(),
});
export const results = z.record(z.string(), offloaded);

const batch = 4;

/** Trains a chain of layers for three steps with its states on the device, in host memory and in files. */
export async function main({
  rank,
  world,
  data,
}: RankContext<ThreadsWorld, Options>): Promise<z.infer<typeof results>> {
  const group = joinThreadsWorld(world, rank);
  const region = world.regions[rank];
  if (region === undefined) throw new RangeError(`no region for rank ${rank}`);
  const found: Record<string, z.infer<typeof offloaded>> = {};
  for (const kind of data.kinds) {
    const device = await cpu({ memory: world.memory, ...region });
    setRank({ device, mesh: new LineMesh('dp', group) });
    await using files = await filePages(data.directory);
    const pages = { none: undefined, host: hostPages(), disk: files }[kind];
    const losses = await train(data, rank, pages);
    const { peakBytes } = device.usage();
    found[kind] = { losses, peakBytes, residentBytes: process.memoryUsage().rss };
    await group.barrier();
  }
  group.close();
  return found;
}

async function train(
  { layers, width, earlierPasses }: Options,
  rank: number,
  pages: PageStore | undefined,
): Promise<number[]> {
  manualSeed(0);
  const strategy = fsdp(pages === undefined ? {} : { pages });
  const model = constructSharded(
    () => new nn.Sequential(...Array.from({ length: layers }, () => new nn.Linear(width, width))),
    strategy,
  );
  const parallel = await parallelize(model, strategy);
  const adam = new optim.AdamW(model.parameters(), { lr: 1e-6 });
  const optimizer =
    pages === undefined
      ? adam
      : new OffloadedOptimizer(model, adam, {
          states: pages,
          parameters: pages,
          gradients: pages,
          chunkBytes: width * width * Float32Array.BYTES_PER_ELEMENT,
        });
  const losses: number[] = [];
  for (let step = 0; step < 3; step++) {
    optimizer.zeroGrad();
    const pass = (number: number): Tensor => {
      const values = Float32Array.from({ length: batch * width }, (_, i) =>
        Math.sin(i + rank + number),
      );
      const loss = parallel
        .forward(fromData(values, [batch, width], 'f32'))
        .square()
        .mean();
      loss.backward();
      return loss;
    };
    for (const [index, kind] of earlierPasses.entries()) {
      if (kind === 'waiting') parallel.noSync(() => pass(index + 1));
      else pass(index + 1);
      // A program that reads the loss of each pass realizes here.
      await currentSession().realize([]);
    }
    const loss = pass(0);
    await optimizer.step();
    losses.push(await loss.item());
  }
  return losses;
}
