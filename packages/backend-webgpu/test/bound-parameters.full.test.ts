import type { Program } from '@shardwise/core/spec';
import { reasonWithoutDevice } from '@shardwise/testing/node';
import { describe, expect, test } from 'vitest';
import { leastTraits } from '../src/kernels/device-traits.ts';
import { GpuExecutable } from '../src/run/executable.ts';
import { planKernels } from '../src/plan/plan-kernels.ts';
import type { GpuBuffer } from '../src/device/gpu-buffer.ts';
import { GpuMemory } from '../src/device/gpu-memory.ts';
import { GpuSession } from '../src/device/gpu-session.ts';
import { webgpu } from '../src/index.ts';
import { openGpu } from './open-gpu.ts';

const reason = await reasonWithoutDevice(webgpu);
const elements = 4096;

describe.skipIf(reason !== undefined)(
  `an executable${reason ? ` (not here: ${reason})` : ''}`,
  () => {
    test('gives each run its own parameters, also if a later run is divided before the first one is compiled', async () => {
      const gpu = await openGpu();
      const session = new GpuSession(gpu, { submissionMs: 250, timeoutMs: 60_000 });
      const memory = new GpuMemory(gpu, { memoryBytes: 2 ** 24 }, session.fail, session.destroy);
      let workLimit = 2 ** 30;
      Object.defineProperty(session, 'workLimit', { get: () => workLimit });
      const type = { shape: [elements], dtype: 'f32' } as const;
      const program: Program = {
        inputs: [type],
        instructions: [{ op: 'neg', params: {}, inputs: [0], ...type }],
        outputs: [1],
        updates: [],
      };
      const executable = new GpuExecutable(session, memory, planKernels(program, leastTraits));
      const bufferOf = (first: number): GpuBuffer => {
        const buffer = memory.alloc(4 * elements);
        const values = Float32Array.from({ length: elements }, (_, i) => first + i);
        session.write(buffer, new Uint8Array(values.buffer));
        return buffer;
      };
      const inputs = [bufferOf(1), bufferOf(2)];
      const outputs = inputs.map(() => bufferOf(0));
      const runs = inputs.map((input, number) => {
        if (number === 1) workLimit = 1024;
        return executable.run([input], outputs.slice(number, number + 1));
      });
      await Promise.all(runs);
      for (const [number, { memory: from, byteOffset, byteLength }] of outputs.entries()) {
        const bytes = await session.read(from, byteOffset, byteLength);
        const expected = Float32Array.from({ length: elements }, (_, i) => -(number + 1 + i));
        expect(new Float32Array(bytes.buffer)).toEqual(expected);
      }
      session.close();
    });
  },
);
