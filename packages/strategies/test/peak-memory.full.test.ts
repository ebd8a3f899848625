import { cpu } from '@shardwise/backend-cpu';
import { createThreadsWorld, type ThreadsWorld } from '@shardwise/collectives';
import { fromData, nn, optim, setRank, type Strategy } from '@shardwise/core';
import { ddp, fsdp, parallelize, zero } from '@shardwise/strategies';
import { onRanks, type RankInThread } from '@shardwise/testing/node';
import { beforeAll, describe, expect, it } from 'vitest';

const size = 4;
const width = 512;
const layers = 20;
const batch = 8;
/** Ψ of the papers for one layer, in bytes of f32. */
const layerBytes = (width * width + width) * Float32Array.BYTES_PER_ELEMENT;
const modelBytes = layers * layerBytes;
const activationBytes = (layers + 1) * batch * width * Float32Array.BYTES_PER_ELEMENT;

/** The memory of parameters, gradients and two moments on one rank, in multiples of the model's size. */
const statesOf: Readonly<Record<string, number>> = {
  DDP: 4,
  'ZeRO-1': 2 + 2 / size,
  'ZeRO-2': 1 + 3 / size,
  'ZeRO-3': 4 / size,
  FSDP: 4 / size,
  'FSDP bf16': 4 / size,
};

/** The strategies of the model's states. `layerBytes` is the size of one layer. */
const strategies: Readonly<Record<string, (layerBytes: number) => Strategy>> = {
  DDP: () => ddp(),
  'ZeRO-1': (layerBytes) => zero({ stage: 1, bucketBytes: layerBytes }),
  'ZeRO-2': (layerBytes) => zero({ stage: 2, bucketBytes: layerBytes }),
  'ZeRO-3': () => zero({ stage: 3 }),
  FSDP: () => fsdp(),
  'FSDP bf16': () => fsdp({ mixedPrecision: { parameterDtype: 'bf16' } }),
};

/** The memory of one rank's allocator, by strategy. */
type Memories = Record<
  string,
  {
    /** The bytes of parameters, gradients and moments in use after a step. */
    readonly statesBytes: number;
    /** The most bytes in use at once in the third step. */
    readonly peakBytes: number;
  }
>;

/** Trains by each strategy on this rank. All allocators have the same region of the memory, one after the other. */
async function observe(
  { rank, group, mesh }: RankInThread,
  { memory, regions }: ThreadsWorld,
): Promise<Memories> {
  const region = regions[rank];
  if (region === undefined) throw new RangeError(`no region for rank ${rank}`);
  const found: Memories = {};
  for (const [name, strategy] of Object.entries(strategies)) {
    // Each measurement has its own allocator, so its high-water mark begins at zero.
    const device = await cpu({ memory, ...region });
    setRank({ device, mesh });
    const model = new nn.Sequential(
      ...Array.from({ length: layers }, () => new nn.Linear(width, width)),
    );
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
  return found;
}

describe(`memory of ${size} ranks`, () => {
  let ranks: readonly Memories[] = [];

  beforeAll(async () => {
    const world = createThreadsWorld({ size, arenaBytes: 6 * modelBytes });
    ranks = await onRanks(size, (rank) => observe(rank, world));
  });

  it.each(Object.keys(strategies))('%s keeps the states of the papers', (name) => {
    const expected = (statesOf[name] ?? NaN) * modelBytes;
    for (const rank of ranks) {
      expect(Math.abs((rank[name]?.statesBytes ?? NaN) / expected - 1)).toBeLessThan(0.01);
    }
  });

  it.each(Object.keys(strategies))(
    '%s never has more than 1.2 times its states, activations and one layer',
    (name) => {
      const bytes = (statesOf[name] ?? NaN) * modelBytes + activationBytes + layerBytes;
      for (const rank of ranks) expect((rank[name]?.peakBytes ?? NaN) / bytes).toBeLessThan(1.2);
    },
  );

  it('ZeRO-2 never has even half of the gradients at once', () => {
    const kept = (1 + 2 / size) * modelBytes;
    for (const rank of ranks) {
      expect((rank['ZeRO-2']?.peakBytes ?? NaN) - kept).toBeLessThan(modelBytes / 2);
    }
  });
});
