import { cpu } from '@shardwise/backend-cpu';
import { joinThreadsWorld, type ThreadsWorld } from '@shardwise/collectives';
import { LineMesh, nn, ones, optim, setRank, type Strategy, type Tensor } from '@shardwise/core';
import {
  ddp,
  fsdp,
  memory,
  parallelize,
  planFor,
  planMemory,
  zero,
  ZeroRedundancyOptimizer,
} from '@shardwise/strategies';
import type { RankContext } from '@shardwise/testing/ranks';
import { z } from 'zod';

export const strategies: Readonly<Record<string, () => Strategy>> = {
  DDP: () => ddp(),
  'DDP with a ZeroRedundancyOptimizer': () => ddp(),
  'ZeRO-1': () => zero({ stage: 1 }),
  'ZeRO-2': () => zero({ stage: 2 }),
  'ZeRO-3': () => zero({ stage: 3 }),
  FSDP: () => fsdp(),
  'ZeRO-1 in 16 bits': () => zero({ stage: 1, mixedPrecision: { parameterDtype: 'bf16' } }),
  'ZeRO-2 in 16 bits': () => zero({ stage: 2, mixedPrecision: { parameterDtype: 'bf16' } }),
  'ZeRO-3 in 16 bits': () => zero({ stage: 3, mixedPrecision: { parameterDtype: 'f16' } }),
  'FSDP in 16 bits, gradients in 32': () =>
    fsdp({ mixedPrecision: { parameterDtype: 'bf16', reduceDtype: 'f32' } }),
};

const bytes = z.number().int();
const use = z.object({
  parameterBytes: bytes,
  gradientBytes: bytes,
  optimizerBytes: bytes,
  bufferBytes: bytes,
  hostBytes: bytes,
  otherBytes: bytes,
  bytesInUse: bytes,
  peakBytes: bytes,
});
export const observation = z.object({
  afterStep: use,
  afterZeroGrad: use,
  planned: z.object({
    parameterBytes: z.number(),
    gradientBytes: z.number(),
    optimizerBytes: z.number(),
    bufferBytes: z.number(),
  }),
});
export const observations = z.record(z.string(), observation);

/** Two matrices of the same size, whose rows are multiples of 64 bytes, and a buffer. */
class Net extends nn.Module {
  readonly first = new nn.Linear(64, 64, { bias: false });
  readonly second = new nn.Linear(64, 64, { bias: false });
  readonly offset = new nn.BufferTensor(new Float32Array(64), [64]);

  /** Shape: x [B, 64] -> []. */
  forward(x: Tensor): Tensor {
    return this.second.forward(this.first.forward(x.sub(this.offset)).tanh()).mean();
  }
}

export async function main({
  rank,
  world,
}: RankContext<ThreadsWorld>): Promise<z.infer<typeof observations>> {
  const group = joinThreadsWorld(world, rank);
  const region = world.regions[rank];
  if (region === undefined) throw new RangeError(`no region for rank ${rank}`);
  const found: Record<string, z.infer<typeof observation>> = {};
  for (const [name, strategyOf] of Object.entries(strategies)) {
    const device = await cpu({ memory: world.memory, ...region });
    setRank({ device, mesh: new LineMesh('dp', group) });
    const model = new Net();
    const strategy = strategyOf();
    const planned = planMemory(planFor(model, strategy));
    const parallel = await parallelize(model, strategy);
    const optimizer = name.includes('Redundancy')
      ? new ZeroRedundancyOptimizer(model.parameters(), optim.AdamW, { lr: 0.1 })
      : new optim.AdamW(model.parameters(), { lr: 0.1 });
    for (let step = 0; step < 2; step++) {
      optimizer.zeroGrad();
      const loss = parallel.forward(ones([4, 64]));
      loss.backward();
      await optimizer.step();
      await loss.item();
    }
    const afterStep = use.parse(memory({ model, optimizer }));
    optimizer.zeroGrad();
    const afterZeroGrad = use.parse(memory({ model, optimizer }));
    found[name] = observation.parse({ afterStep, afterZeroGrad, planned });
    await group.barrier();
  }
  group.close();
  return found;
}
