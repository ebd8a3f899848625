import { type WebGpuBackend, webgpu } from '@shardwise/backend-webgpu';
import { reasonWithoutDevice } from '@shardwise/testing/node';
import { setRank } from 'shardwise';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { floats, readGolden, withPrefix } from './golden-file.ts';
import type { GoldenName } from './models.ts';
import type { OptimizerName } from './optimizers.ts';
import { train } from './train-models.ts';

/** The relative tolerance of losses, because devices round differently. */
const tolerance = 1e-4;
/** Drivers that compute on the CPU take minutes for a GPT on a busy machine. */
const timeoutMs = 300_000;

/** Tests that a WebGPU device has the losses that PyTorch recorded (tools/golden-training.py). */
export async function describeWebGpuLosses(
  trainings: readonly (readonly [GoldenName, OptimizerName])[],
): Promise<void> {
  const reason = await reasonWithoutDevice(webgpu);
  const title = `training on WebGPU${reason === undefined ? '' : ` (not here: ${reason})`}`;
  describe.skipIf(reason !== undefined)(title, () => {
    let device: WebGpuBackend;

    beforeAll(async () => {
      device = await webgpu();
      setRank({ device });
    });

    afterAll(() => device.close());

    test.each(trainings)(
      '%s with %s has the losses of PyTorch for 20 steps',
      async (model, optimizer) => {
        const { [optimizer]: golden } = withPrefix((await readGolden(model)).tensors, 'losses');
        expect(golden).toBeDefined();
        const expected = golden === undefined ? [] : [...floats(golden)];
        const { losses } = await train(model, optimizer, 0, 1);
        expect(losses.length).toBe(expected.length);
        const differences = losses.map((loss, step) => Math.abs(loss - (expected[step] ?? NaN)));
        expect(Math.max(...differences)).toBeLessThan(tolerance);
      },
      timeoutMs,
    );
  });
}
