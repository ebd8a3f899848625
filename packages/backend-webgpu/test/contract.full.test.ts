import { type WebGpuBackend, webgpu } from '@shardwise/backend-webgpu';
import { backendSuite } from '@shardwise/testing';
import { reasonWithoutDevice } from '@shardwise/testing/node';
import { testSuite } from '@shardwise/testing/vitest';
import { afterAll, describe } from 'vitest';

const reason = await reasonWithoutDevice(webgpu);

describe.skipIf(reason !== undefined)(
  `on a device of WebGPU${reason ? ` (not here: ${reason})` : ''}`,
  () => {
    let device: WebGpuBackend | undefined;
    const create = async (): Promise<WebGpuBackend> => (device = await webgpu());
    const bytesInUse = (backend: WebGpuBackend): number => backend.usage().bytesInUse;
    afterAll(() => device?.close());
    testSuite(backendSuite({ name: 'webgpu', create, bytesInUse }));
  },
);
