import { manualSeed, rand, setRank } from '@shardwise/core';
import { reasonWithoutDevice } from '@shardwise/testing/node';
import { describe, expect, test } from 'vitest';
import { webgpu } from '../src/index.ts';
import { deviceTiles } from '../src/kernels/product-tile.ts';
import { WebGpuBackend } from '../src/webgpu-backend.ts';
import { openGpu } from './open-gpu.ts';

const reason = await reasonWithoutDevice(webgpu);

describe.skipIf(reason !== undefined)(
  `products of a device${reason ? ` (not here: ${reason})` : ''}`,
  () => {
    const settings = { adapter: '', memoryBytes: 2 ** 30, timeoutMs: 60_000 };

    test('are measured once with each tile', async () => {
      // On a busy machine a product may take longer than the usual limit of a submission. It would then be cut into
      // several submissions.
      const device = new WebGpuBackend(await openGpu(), { ...settings, submissionMs: 60_000 });
      setRank({ device });
      manualSeed(0);
      const [x, y] = [rand([64, 64]), rand([512, 512])];
      await Promise.all([x.matmul(x).realize(), y.realize()]);
      expect(device.tiles).toBeUndefined();
      const first = await y.matmul(y).data();
      const { tiles: measured = [] } = device;
      expect(measured.length).toBeGreaterThanOrEqual(2);
      for (const [number, { tile, alone, each }] of measured.entries()) {
        expect(tile).toBe(deviceTiles[number]?.tile);
        expect(alone).toBeGreaterThan(0);
        expect(each).toBeGreaterThan(0);
      }
      const submissions = device.submissions;
      const second = await y.matmul(y.add(0)).data();
      expect(device.tiles).toBe(measured);
      expect(device.submissions - submissions).toBeLessThanOrEqual(3);
      expect(second).toEqual(first);
      device.close();
    }, 300_000);
  },
);
