import { BackendError } from '@shardwise/core/spec';
import { backendSuite, type Suite } from '@shardwise/testing';
import { reasonWithoutDevice } from '@shardwise/testing/node';
import { testSuite } from '@shardwise/testing/vitest';
import { afterAll, describe, expect, test } from 'vitest';
import { bufferUsage } from '../src/device/gpu-constants.ts';
import { findGpu } from '../src/find-gpu.ts';
import { webgpu } from '../src/index.ts';
import { WebGpuBackend } from '../src/webgpu-backend.ts';

const reason = await reasonWithoutDevice(webgpu);
const bindingBytes = 2048;
/** Those that have values of more bytes. All others would run as they do with large bindings. */
const groups = new Set(
  [
    ['constant', 'random', 'exp', 'add', 'less', 'where', 'gelu'],
    ['sum', 'max', 'argMax', 'argSort', 'cumsum', 'permute', 'indexSelect', 'indexAdd'],
    ['matmul', 'groupedMatmul', 'groupedMatmulWeight', 'attention', 'attentionKeyGrad'],
  ].flat(),
);

describe.skipIf(reason !== undefined)(
  `on a device of WebGPU with bindings of ${bindingBytes} bytes${reason ? ` (not here: ${reason})` : ''}`,
  () => {
    let device: WebGpuBackend | undefined;
    let largestBinding = 0;
    /** Sets of bindings of which one has a part of a buffer. */
    let parts = 0;
    /** Tests of which a kernel needs too many bindings. */
    const refused: string[] = [];

    const create = async (): Promise<WebGpuBackend> => {
      const adapter = await (await findGpu()).requestAdapter();
      if (adapter === null) throw new Error('the adapter is gone');
      const gpu = await adapter.requestDevice();
      const bind = gpu.createBindGroup.bind(gpu);
      gpu.createBindGroup = (descriptor) => {
        const bound = [...descriptor.entries].flatMap(({ resource }) =>
          'buffer' in resource && (resource.buffer.usage & bufferUsage.storage) !== 0
            ? [{ whole: resource.buffer.size, size: resource.size ?? resource.buffer.size }]
            : [],
        );
        largestBinding = Math.max(largestBinding, ...bound.map(({ size }) => size));
        if (bound.some(({ whole, size }) => size < whole)) parts += 1;
        return bind(descriptor);
      };
      device = new WebGpuBackend(gpu, {
        adapter: 'small bindings',
        memoryBytes: 2 ** 30,
        bindingBytes,
        submissionMs: 250,
        timeoutMs: 60_000,
      });
      return device;
    };
    afterAll(() => device?.close());

    const whole = backendSuite({ name: 'webgpu', create });
    const suite: Suite = {
      ...whole,
      tests: whole.tests
        .filter(({ groups: [group = ''] }) => groups.has(group))
        .map((each) => ({
          ...each,
          run: async () => {
            try {
              return await each.run();
            } catch (error) {
              if (!(error instanceof BackendError) || error.fields['bindings'] === undefined)
                throw error;
              refused.push(each.name);
              return { reason: error.message };
            }
          },
        })),
    };
    testSuite(suite);

    test('kernels bind parts of large values, and few need more of them than the device has', () => {
      expect(largestBinding).toBeLessThanOrEqual(bindingBytes);
      expect(parts).toBeGreaterThan(100);
      expect(refused.length).toBeLessThan(suite.tests.length / 8);
    });
  },
);
