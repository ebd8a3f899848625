import { type WebGpuBackend, webgpu } from '@shardwise/backend-webgpu';
import { reasonWithoutDevice } from '@shardwise/testing/node';
import { afterAll, beforeAll, describe, it } from 'vitest';
import type { AttentionTask, Trained } from './attention-training.ts';
import { compareOn, type Devices, trainOnOneOf } from './compare-with-one-rank.ts';

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
    // Two ranks have a device each, which has the kernels that earlier ranks have compiled.
    const made: WebGpuBackend[] = [];
    let ranks = 0;
    const devices: Devices = {
      createDevice: async () => (made[ranks++ % 2] ??= await webgpu()),
      // The thread has nothing to do while a driver compiles kernels.
      idleTimeoutMs: 120_000,
      // Devices round differently.
      tolerance: { rtol: 1e-4, atol: 1e-4 },
    };
    afterAll(() => {
      for (const device of made) device.close();
    });

    let alone: Trained;
    beforeAll(async () => {
      alone = await trainOnOneOf(devices, { ...task, method: 'ring' });
    });

    it.each(['ring', 'ulysses'] as const)(
      'trains as one rank does, by the method %s',
      (method) => compareOn(devices, 2, { ...task, method }, alone),
      300_000,
    );
  },
);
