import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { setTimeout } from 'node:timers/promises';
import { cpu } from '@shardwise/backend-cpu';
import { expect, test } from 'vitest';
import { GELU } from '../src/nn/layers/activations.ts';
import { crossEntropy } from '../src/nn/functional/cross-entropy.ts';
import { LayerNorm } from '../src/nn/norm/layer-norm.ts';
import { Linear } from '../src/nn/layers/linear.ts';
import { Sequential } from '../src/nn/containers/sequential.ts';
import { AdamW } from '../src/optim/adam.ts';
import { clipGradNorm } from '../src/optim/clip-grad-norm.ts';
import { manualSeed } from '../src/random/keys.ts';
import { setRank } from '../src/rank.ts';
import { fromData } from '../src/tensor/create.ts';

setFlagsFromString('--expose-gc');
const collectGarbage: unknown = runInNewContext('gc');

/** Returns after the finalizers of collected tensors have run. */
async function settle(): Promise<void> {
  if (typeof collectGarbage !== 'function') throw new TypeError('no gc to call');
  for (let round = 0; round < 3; round++) {
    collectGarbage();
    await setTimeout(0);
  }
}

test('1,000 training steps leave device memory and heap as 100 left them', async () => {
  const device = await cpu();
  setRank({ device });
  manualSeed(0);
  const model = new Sequential(new Linear(8, 16), new LayerNorm(16), new GELU(), new Linear(16, 4));
  const optimizer = new AdamW(model.parameters());
  const train = async (steps: number): Promise<{ deviceBytes: number; heapBytes: number }> => {
    for (let step = 0; step < steps; step++) {
      const x = fromData(
        Float32Array.from({ length: 32 }, (_, i) => Math.sin(i + step)),
        [4, 8],
        'f32',
      );
      const loss = crossEntropy(
        model.forward(x),
        fromData(Int32Array.of(0, 1, 2, step % 4), [4], 'i32'),
      );
      optimizer.zeroGrad();
      loss.backward();
      clipGradNorm(model.parameters(), 1);
      await optimizer.step();
    }
    await settle();
    return { deviceBytes: device.usage().bytesInUse, heapBytes: process.memoryUsage().heapUsed };
  };
  const before = await train(100);
  const after = await train(900);
  expect(after.deviceBytes).toBeLessThanOrEqual(before.deviceBytes);
  // The graph of a step has about 100 nodes. If they were kept, 900 steps would take tens of megabytes.
  expect(after.heapBytes - before.heapBytes).toBeLessThan(2_000_000);
});
