import { type WebGpuBackend, webgpu } from '@shardwise/backend-webgpu';
import { reasonWithoutDevice } from '@shardwise/testing/node';
import { afterAll, describe } from 'vitest';
import { describePrograms } from './golden/describe-programs.ts';

const reason = await reasonWithoutDevice(webgpu);

describe.skipIf(reason !== undefined)(`a GPU${reason ? ` (not here: ${reason})` : ''}`, () => {
  let device: WebGpuBackend | undefined;
  afterAll(() => device?.close());
  describePrograms('WebGPU', async () => (device = await webgpu()));
});
