import { wasm } from '@shardwise/backend-cpu/wasm';
import { webgpu } from '@shardwise/backend-webgpu';
import { reasonWithoutDevice } from '@shardwise/testing/node';
import { describe } from 'vitest';
import { describeRandomSizes } from './random-sizes/describe-random-sizes.ts';

const reason = await reasonWithoutDevice(webgpu);

describe.skipIf(reason !== undefined)(`a GPU${reason ? ` (not here: ${reason})` : ''}`, () =>
  describeRandomSizes(['WebGPU', () => webgpu()], ['WebAssembly', () => wasm()], 8),
);
