import { wasm } from '@shardwise/backend-cpu/wasm';
import { type WebGpuBackend, webgpu } from '@shardwise/backend-webgpu';
import { reasonWithoutDevice } from '@shardwise/testing/node';
import { afterAll, describe } from 'vitest';
import { describeRandomSizes } from './random-sizes/describe-random-sizes.ts';

const reason = await reasonWithoutDevice(webgpu);

describe.skipIf(reason !== undefined)(`a GPU${reason ? ` (not here: ${reason})` : ''}`, () => {
  let device: WebGpuBackend | undefined;
  afterAll(() => device?.close());
  describeRandomSizes(
    ['WebGPU', async () => (device = await webgpu())],
    ['WebAssembly', () => wasm()],
    8,
  );
});
