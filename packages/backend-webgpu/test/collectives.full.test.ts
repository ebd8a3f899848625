import { createGroup, createLoopbackTransports } from '@shardwise/collectives';
import { allReduce, LineMesh, setRank, tensor } from '@shardwise/core';
import { reasonWithoutDevice } from '@shardwise/testing/node';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { bufferUsage } from '../src/device/gpu-constants.ts';
import { openGpu } from './open-gpu.ts';
import { webgpu } from '../src/index.ts';
import { WebGpuBackend } from '../src/webgpu-backend.ts';

const reason = await reasonWithoutDevice(webgpu);
const elements = 5000;

describe.skipIf(reason !== undefined)(
  `collectives of values of a device of WebGPU${reason ? ` (not here: ${reason})` : ''}`,
  () => {
    const memory = new WebAssembly.Memory({ initial: 4, maximum: 4, shared: true });
    const region = { byteOffset: 65_536, byteLength: 131_072 };
    let device: WebGpuBackend;
    /** The number of mappable buffers that the device has created. */
    let created = 0;
    /** The messages that the group was called with. */
    const messages: Uint8Array[] = [];
    let step: (value: number) => Promise<number>;

    beforeAll(async () => {
      const gpu = await openGpu();
      const create = gpu.createBuffer.bind(gpu);
      gpu.createBuffer = (descriptor) => {
        if (descriptor.usage & bufferUsage.mapRead) created++;
        return create(descriptor);
      };
      device = new WebGpuBackend(gpu, {
        adapter: 'counted',
        memoryBytes: 2 ** 30,
        host: { memory, ...region },
        submissionMs: 250,
        timeoutMs: 60_000,
      });
      const [own, peer] = createLoopbackTransports(2).map((transport) =>
        createGroup(transport, { verify: false }),
      );
      if (own === undefined || peer === undefined) throw new RangeError('two groups');
      const call = own.allReduce.bind(own);
      own.allReduce = (buffer, ...rest) => {
        messages.push(buffer.bytes);
        return call(buffer, ...rest);
      };
      setRank({ device, mesh: new LineMesh('dp', own) });
      step = async (value) => {
        const x = tensor(Array.from({ length: elements }, () => value));
        const reduced = allReduce(x.exp(), 'dp');
        // This value is computed while the message travels.
        const meanwhile = x.sin().retain();
        const result = reduced.sub(meanwhile).max().item();
        const ones = new Uint8Array(new Float32Array(elements).fill(1).buffer);
        await peer.allReduce({ bytes: ones, dtype: 'f32' }, 'sum');
        return result;
      };
    });
    afterAll(() => device.close());

    test('travel in the region of the rank, in the same bytes in every step, through the same buffers of the device', async () => {
      for (const value of [1, 2]) await step(value);
      const before = created;
      for (const value of [0.5, 1.5, 2.5])
        expect(await step(value)).toBeCloseTo(Math.exp(value) + 1 - Math.sin(value), 4);
      expect(created).toBe(before);
      expect(before).toBeGreaterThan(0);
      expect(messages).toHaveLength(5);
      const places = new Set(messages.map(({ byteOffset }) => byteOffset));
      expect(places.size).toBe(1);
      for (const { buffer, byteOffset, byteLength } of messages) {
        expect(buffer).toBe(memory.buffer);
        expect(byteOffset).toBeGreaterThanOrEqual(region.byteOffset);
        expect(byteOffset + byteLength).toBeLessThanOrEqual(region.byteOffset + region.byteLength);
      }
      const outside = new Uint8Array(memory.buffer);
      expect(outside.subarray(0, region.byteOffset).every((byte) => byte === 0)).toBe(true);
    });
  },
);
