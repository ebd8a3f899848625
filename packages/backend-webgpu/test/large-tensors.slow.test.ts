import { reasonWithoutDevice } from '@shardwise/testing/node';
import { describe, test } from 'vitest';
import { webgpu } from '../src/index.ts';
import { expectLossesOfInterpreter } from './large-language-model.ts';
import { createSmallBindings } from './small-bindings.ts';

const reason = await reasonWithoutDevice(webgpu);
const bindingBytes = 16_384;

// An emulated device compiles the kernels of attention for most of a minute.
describe.skipIf(reason !== undefined)(
  `tensors that are larger than a binding${reason ? ` (not here: ${reason})` : ''}`,
  () => {
    test('a GPT whose embedding, logits and optimizer states are larger has the losses of the interpreter', async () => {
      const created = await createSmallBindings(bindingBytes);
      await expectLossesOfInterpreter(created, bindingBytes, { hasBlock: true });
      created.device.close();
    }, 300_000);
  },
);
