import { webgpu } from '@shardwise/backend-webgpu';
import { reasonWithoutDevice } from '@shardwise/testing/node';
import { describe } from 'vitest';
import { describePrograms } from './golden/describe-programs.ts';

const reason = await reasonWithoutDevice(webgpu);

describe.skipIf(reason !== undefined)(`a GPU${reason ? ` (not here: ${reason})` : ''}`, () =>
  describePrograms('WebGPU', () => webgpu()),
);
