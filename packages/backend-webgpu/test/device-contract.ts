import { BackendError } from '@shardwise/core/spec';
import { backendSuite, type Suite } from '@shardwise/testing';
import { reasonWithoutDevice } from '@shardwise/testing/node';
import { testSuite } from '@shardwise/testing/vitest';
import { afterAll, describe, expect, test } from 'vitest';
import { type WebGpuBackend, webgpu } from '../src/index.ts';
import { createSmallBindings, type DeviceOfSmallBindings } from './small-bindings.ts';

// An emulated device compiles kernels for minutes, most of them with barriers. A full test runs every third test of each
// group, and a slow test runs all.

const reason = await reasonWithoutDevice(webgpu);
const notHere = reason === undefined ? '' : ` (not here: ${reason})`;
const bindingBytes = 2048;
/** The ops whose tests have values of more bytes. All other ops would run as they do with large bindings. */
const groupsOfLargeValues = new Set(
  [
    ['constant', 'random', 'exp', 'add', 'less', 'where', 'gelu'],
    ['sum', 'max', 'argMax', 'argSort', 'cumsum', 'permute', 'indexSelect', 'indexAdd'],
    ['matmul', 'groupedMatmul', 'groupedMatmulWeight', 'attention', 'attentionKeyGrad'],
  ].flat(),
);

/** Takes every n-th test of each group. The group chooses the first, so that similar groups have different ones. */
function everyTest(n: number, { name, tests }: Suite): Suite {
  const groups = [...Map.groupBy(tests, ({ groups }) => groups.join()).values()];
  const taken = groups.flatMap((members, group) => {
    const first = group % Math.min(n, members.length);
    return members.filter((_, index) => index % n === first);
  });
  return { name, tests: taken };
}

/** Tests that a device keeps the contract of backends. It runs every n-th test of each op. */
export function deviceKeepsContract(n: number): void {
  describe.skipIf(reason !== undefined)(`on a device of WebGPU${notHere}`, () => {
    let device: WebGpuBackend | undefined;
    const create = async (): Promise<WebGpuBackend> => (device = await webgpu());
    const bytesInUse = (backend: WebGpuBackend): number => backend.usage().bytesInUse;
    afterAll(() => device?.close());
    testSuite(everyTest(n, backendSuite({ name: 'webgpu', create, bytesInUse })));
  });
}

/** Does what deviceKeepsContract does, for a device whose bindings are smaller than the values of the tests. */
export function smallBindingsKeepContract(n: number): void {
  const title = `on a device of WebGPU with bindings of ${bindingBytes} bytes${notHere}`;
  describe.skipIf(reason !== undefined)(title, () => {
    let created: DeviceOfSmallBindings | undefined;
    /** The tests in which a kernel needs too many bindings. */
    const refused: string[] = [];

    const create = async (): Promise<WebGpuBackend> => {
      created = await createSmallBindings(bindingBytes);
      return created.device;
    };
    afterAll(() => created?.device.close());

    const { name, tests } = everyTest(n, backendSuite({ name: 'webgpu', create }));
    const suite: Suite = {
      name,
      tests: tests
        .filter(({ groups: [group = ''] }) => groupsOfLargeValues.has(group))
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
      expect(created?.parts).toBeGreaterThan(100 / n);
      expect(refused.length).toBeLessThan(suite.tests.length / 8);
    });
  });
}
