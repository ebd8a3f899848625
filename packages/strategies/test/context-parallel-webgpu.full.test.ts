import { type WebGpuBackend, webgpu } from '@shardwise/backend-webgpu';
import { reasonWithoutDevice } from '@shardwise/testing/node';
import { afterAll, describe, it } from 'vitest';
import type { AttentionTask } from './attention-training.ts';
import { compareOn } from './compare-with-one-rank.ts';

const reason = await reasonWithoutDevice(webgpu);

const task: Omit<AttentionTask, 'method'> = {
  order: 'headTail',
  cp: 2,
  shared: 'ddp',
  rows: 2,
  // The ranks do not divide the length of the second step.
  lengths: [12, 7, 12],
  heads: 4,
  groups: 2,
  causal: true,
  window: null,
  documents: 5,
  masked: false,
  memory: false,
  sources: null,
};

describe.skipIf(reason !== undefined)(
  `context parallelism on devices of WebGPU${reason ? ` (not here: ${reason})` : ''}`,
  () => {
    const made: WebGpuBackend[] = [];
    const devices = {
      createDevice: async () => {
        const device = await webgpu();
        made.push(device);
        return device;
      },
      // The thread has nothing to do while a driver compiles kernels.
      idleTimeoutMs: 120_000,
      // Devices round differently.
      tolerance: { rtol: 1e-4, atol: 1e-4 },
    };
    afterAll(() => {
      for (const device of made) device.close();
    });

    it.each(['ring', 'ulysses'] as const)(
      'trains as one rank does, by the method %s',
      (method) => compareOn(devices, 2, { ...task, method }),
      300_000,
    );
  },
);
