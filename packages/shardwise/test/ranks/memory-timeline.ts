import { cpu } from '@shardwise/backend-cpu';
import { joinThreadsWorld, type ThreadsWorld } from '@shardwise/collectives';
import { LineMesh, manualSeed, nn, ones, optim, setRank, type Strategy } from '@shardwise/core';
import { ddp, fsdp, parallelize, zero } from '@shardwise/strategies';
import type { RankContext } from '@shardwise/testing/ranks';
import { profiler } from 'shardwise';

const strategies: Readonly<Record<string, () => Strategy>> = {
  ddp,
  'zero 3': () => zero({ stage: 3 }),
  fsdp,
  'fsdp bf16': () => fsdp({ mixedPrecision: { parameterDtype: 'bf16' } }),
};

/** What a rank finds: its timeline, and what its device has counted. */
export interface Found {
  readonly profiles: readonly profiler.MemoryProfile[];
  readonly peakBytes: number;
}

/** Returns, for each strategy, the memory of all ranks in the first two steps, each time on a new device. */
export async function main({
  rank,
  world,
}: RankContext<ThreadsWorld>): Promise<Record<string, Found>> {
  const group = joinThreadsWorld(world, rank);
  const region = world.regions[rank];
  if (region === undefined) throw new RangeError(`no region for rank ${rank}`);
  const found: Record<string, Found> = {};
  for (const [name, strategy] of Object.entries(strategies)) {
    const device = await cpu({ memory: world.memory, ...region });
    setRank({ device, mesh: new LineMesh('dp', group) });
    manualSeed(1);
    const model = new nn.Sequential(
      new nn.Linear(32, 64),
      new nn.GELU(),
      new nn.Linear(64, 64),
      new nn.GELU(),
      new nn.Linear(64, 16),
    );
    const parallel = await parallelize(model, strategy());
    const optimizer = new optim.AdamW(model.parameters());
    const timeline = profiler.memoryTimeline({ model: parallel, optimizer });
    for (let step = 0; step < 2; step++) {
      optimizer.zeroGrad();
      const loss = parallel
        .forward(ones([64, 32]))
        .square()
        .mean();
      loss.backward();
      await optimizer.step();
    }
    const profiles = await timeline.stopAll(group);
    found[name] = { profiles, peakBytes: device.usage().peakBytes };
  }
  return found;
}
