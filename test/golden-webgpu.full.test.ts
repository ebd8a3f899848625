import { type WebGpuBackend, webgpu } from '@shardwise/backend-webgpu';
import { reasonWithoutDevice } from '@shardwise/testing/node';
import { setRank } from 'shardwise';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { floats, readGolden, withPrefix } from './golden/golden-file.ts';
import { goldenNames } from './golden/models.ts';
import { optimizerNames } from './golden/optimizers.ts';
import { train } from './golden/train-rank.ts';

// What PyTorch recorded (tools/golden-training.py) is what a device of WebGPU computes.

/** Of losses: devices round in their own ways. */
const tolerance = 1e-4;
/** Drivers that compute on the CPU take minutes for a GPT where the machine is busy. */
const timeoutMs = 300_000;

const reason = await reasonWithoutDevice(webgpu);

describe.skipIf(reason !== undefined)(
  `training on WebGPU${reason ? ` (not here: ${reason})` : ''}`,
  () => {
    let device: WebGpuBackend;

    beforeAll(async () => {
      device = await webgpu();
      setRank({ device });
    });

    afterAll(() => device.close());

    describe.each(goldenNames)('%s', (model) => {
      test.each(optimizerNames)(
        'with %s has the losses of PyTorch for 20 steps',
        async (optimizer) => {
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
  },
);
