import { mkdtemp, readdir, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import {
  fromData,
  hostPages,
  manualSeed,
  nn,
  optim,
  type PageStore,
  setRank,
  type Tensor,
} from '@shardwise/core';
import { currentSession } from '@shardwise/core/extend';
import { filePages } from '@shardwise/core/node';
import {
  constructSharded,
  fsdp,
  memory,
  OffloadedOptimizer,
  parallelize,
} from '@shardwise/strategies';
import { onRanks } from '@shardwise/testing/node';
import { describe, expect, it, onTestFinished } from 'vitest';
import { onCpu } from '../../../test/support/on-cpu.ts';

const size = 2;
const layers = 16;
const width = 128;
const batch = 4;
/** The bytes of this rank's parts of a layer. */
const layerBytes = ((width * width + width) * Float32Array.BYTES_PER_ELEMENT) / size;

/** For each earlier pass of a step, whether its gradients are reduced over the ranks or wait. */
type EarlierPasses = readonly ('reduced' | 'waiting')[];

/** Trains a chain of layers for three steps with its states on the device, or in pages outside it. */
async function train(
  rank: number,
  earlierPasses: EarlierPasses,
  pages?: PageStore,
): Promise<{ readonly losses: readonly number[]; readonly peakBytes: number }> {
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
  const pass = (number: number): Tensor => {
    const values = Float32Array.from({ length: batch * width }, (_, i) =>
      Math.sin(i + rank + number),
    );
    const x = fromData(values, [batch, width], 'f32');
    const loss = parallel.forward(x).square().mean();
    loss.backward();
    return loss;
  };
  const losses: number[] = [];
  for (let step = 0; step < 3; step++) {
    optimizer.zeroGrad();
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
  return { losses, peakBytes: memory({ model }).peakBytes ?? Number.NaN };
}

describe('FSDP whose states and gradients are outside the device', () => {
  it.each<[what: string, earlierPasses: EarlierPasses]>([
    ['one pass a step', []],
    ['passes that are reduced each', ['reduced', 'reduced']],
    ['passes that wait for the last one', ['waiting', 'waiting']],
    ['passes of both kinds', ['waiting', 'reduced', 'waiting']],
  ])(
    'has the same losses, bit for bit, and on the device only a few layers, with %s',
    async (_, earlierPasses) => {
      const directory = await mkdtemp(join(tmpdir(), 'shardwise-offload-'));
      onTestFinished(() => rm(directory, { recursive: true, force: true }));
      await onRanks(
        size,
        async ({ rank, mesh }) => {
          const onDevice = await train(rank, earlierPasses);
          // Parameters, gradients and both moments.
          expect(onDevice.peakBytes).toBeGreaterThan(4 * layers * layerBytes);
          await using files = await filePages(directory);
          for (const pages of [hostPages(), files]) {
            // A new device, whose high-water mark begins at zero.
            setRank({ device: await onCpu.createDevice(), mesh });
            const { losses, peakBytes } = await train(rank, earlierPasses, pages);
            expect(losses).toEqual(onDevice.losses);
            // The limit allows for three whole layers, each of two parts, and for gradients that are whole, waiting or
            // reduced.
            expect(peakBytes).toBeLessThan(18 * layerBytes);
          }
          expect(await readdir(directory)).not.toEqual([]);
        },
        onCpu,
      );
      expect(await readdir(directory), 'files that are left').toEqual([]);
    },
  );
});
