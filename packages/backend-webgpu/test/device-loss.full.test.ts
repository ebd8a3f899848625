import { manualSeed, nn, optim, randn, setRank } from '@shardwise/core';
import { reasonWithoutDevice } from '@shardwise/testing/node';
import { describe, expect, test } from 'vitest';
import { findGpu } from '../src/find-gpu.ts';
import { webgpu } from '../src/index.ts';
import { WebGpuBackend } from '../src/webgpu-backend.ts';

const reason = await reasonWithoutDevice(webgpu);

describe.skipIf(reason !== undefined)(
  `a device that is lost${reason ? ` (not here: ${reason})` : ''}`,
  () => {
    test('ends the step that waits for it and all later calls, with what happened and what to do', async () => {
      const adapter = await (await findGpu()).requestAdapter();
      const gpu = await adapter?.requestDevice();
      if (gpu === undefined) throw new Error('no device');
      const device = new WebGpuBackend(gpu, 'lost soon', 2 ** 30);
      setRank({ device });
      manualSeed(0);
      const model = new nn.Linear(64, 64);
      const optimizer = new optim.AdamW(model.parameters());
      const step = async (): Promise<number> => {
        optimizer.zeroGrad();
        const loss = model
          .forward(randn([256, 64]))
          .square()
          .mean();
        loss.backward();
        await optimizer.step();
        return loss.item();
      };
      await step();
      const underWay = step();
      gpu.destroy();
      await expect(underWay).rejects.toThrow(/the device was lost.*Start this rank again/s);
      await expect(step()).rejects.toThrow(/the device was lost/);
      const buffer = device.alloc(4);
      expect(() => device.write(buffer, new Uint8Array(4))).toThrow(/the device was lost/);
      await expect(device.read(buffer)).rejects.toThrow(/the device was lost/);
      await expect(device.sync()).rejects.toThrow(/the device was lost/);
    }, 60_000);
  },
);
