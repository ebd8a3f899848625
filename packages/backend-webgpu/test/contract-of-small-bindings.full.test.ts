import { BackendError } from '@shardwise/core/spec';
import { backendSuite, type Suite } from '@shardwise/testing';
import { reasonWithoutDevice } from '@shardwise/testing/node';
import { testSuite } from '@shardwise/testing/vitest';
import { afterAll, describe, expect, test } from 'vitest';
import { webgpu } from '../src/index.ts';
import type { WebGpuBackend } from '../src/webgpu-backend.ts';
import { createSmallBindings, type DeviceOfSmallBindings } from './small-bindings.ts';

const reason = await reasonWithoutDevice(webgpu);
const bindingBytes = 2048;
/** The ops whose tests have values of more bytes. All other ops would run as they do with large bindings. */
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
    let created: DeviceOfSmallBindings | undefined;
    /** The tests in which a kernel needs too many bindings. */
    const refused: string[] = [];

    const create = async (): Promise<WebGpuBackend> => {
      created = await createSmallBindings(bindingBytes);
      return created.device;
    };
    afterAll(() => created?.device.close());

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
      expect(created?.largestBinding).toBeLessThanOrEqual(bindingBytes);
      expect(created?.parts).toBeGreaterThan(100);
      expect(refused.length).toBeLessThan(suite.tests.length / 8);
    });
  },
);
