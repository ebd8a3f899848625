import { manualSeed, nn, optim, ones, randn, setRank, type Tensor, tensor } from '@shardwise/core';
import { BackendError, OutOfMemoryError } from '@shardwise/core/spec';
import { reasonWithoutDevice } from '@shardwise/testing/node';
import { describe, expect, test } from 'vitest';
import { openGpu } from './open-gpu.ts';
import { webgpu } from '../src/index.ts';
import { WebGpuBackend } from '../src/webgpu-backend.ts';

const reason = await reasonWithoutDevice(webgpu);

/** Returns a backend and the device that it computes on, which a test may break. */
async function breakable(timeoutMs = 60_000): Promise<{ gpu: GPUDevice; device: WebGpuBackend }> {
  const gpu = await openGpu();
  const memoryBytes = 2 ** 30;
  const device = new WebGpuBackend(gpu, {
    adapter: 'breakable',
    memoryBytes,
    submissionMs: 250,
    timeoutMs,
  });
  setRank({ device });
  return { gpu, device };
}

const errorOf = async (promise: Promise<unknown>): Promise<unknown> => {
  try {
    return await promise;
  } catch (error) {
    return error;
  }
};

describe.skipIf(reason !== undefined)(
  `a device that fails${reason ? ` (not here: ${reason})` : ''}`,
  () => {
    test('by being lost ends the step that waits for it and all later calls, with what happened and what to do', async () => {
      const { gpu, device } = await breakable();
      manualSeed(0);
      const model = new nn.Linear(64, 64);
      const optimizer = new optim.AdamW(model.parameters());
      const step = async (): Promise<number> => {
        optimizer.zeroGrad();
        const loss = model
          .forward(randn([256, 64]))
          .square()
          .mean();
        loss.backward();
        await optimizer.step();
        return loss.item();
      };
      await step();
      const underWay = step();
      gpu.destroy();
      await expect(underWay).rejects.toThrow(/the device was lost.*Start this rank again/s);
      await expect(step()).rejects.toThrow(/the device was lost/);
      const buffer = device.alloc(4);
      expect(() => device.write(buffer, new Uint8Array(4))).toThrow(/the device was lost/);
      await expect(device.read(buffer)).rejects.toThrow(/the device was lost/);
      await expect(device.sync()).rejects.toThrow(/the device was lost/);
    }, 60_000);

    test('by being lost while it computes is said with the largest kernel, its shape and its bytes', async () => {
      const { gpu } = await breakable();
      const x = randn([96, 80]);
      await x.realize();
      const submit = gpu.queue.submit.bind(gpu.queue);
      gpu.queue.submit = (commands) => {
        submit(commands);
        gpu.destroy();
      };
      const value = errorOf(x.transpose(0, 1).matmul(x).exp().sum().item());
      const error = await value;
      expect(String(error)).toMatch(
        /matmul to \[80, 80\], which reads and writes 56320 bytes, and 1 other kernel.*the device was lost/s,
      );
      expect(BackendError.isInstance(error) && error.fields).toMatchObject({
        kernel: 'matmul',
        shape: [80, 80],
        byteLength: 56_320,
      });
    }, 60_000);

    test('by never being done rejects what waits for it after the time that is stated', async () => {
      const { gpu, device } = await breakable(50);
      gpu.queue.onSubmittedWorkDone = () => new Promise(() => {});
      const createBuffer = gpu.createBuffer.bind(gpu);
      gpu.createBuffer = (descriptor) => {
        const buffer = createBuffer(descriptor);
        buffer.mapAsync = () => new Promise(() => {});
        return buffer;
      };
      const x = ones([8, 8]);
      const error = await errorOf(x.matmul(x).add(1).item());
      expect(error).toBeInstanceOf(Error);
      const read = await errorOf(x.matmul(x).data());
      expect(String(read)).toMatch(/to \[8, 8\], which reads.*it was not done after 50 ms/s);
      await expect(device.sync()).rejects.toThrow(/not done after 50 ms/);
      device.close();
    }, 60_000);

    test('by refusing commands rejects the run that has them, with its kernel, and updates nothing', async () => {
      const { gpu, device } = await breakable();
      const weight = tensor([1, 2, 3]).requiresGrad_();
      await weight.realize();
      const create = gpu.createComputePipelineAsync.bind(gpu);
      // The automatic layout does not fit the bindings.
      gpu.createComputePipelineAsync = (descriptor) => create({ ...descriptor, layout: 'auto' });
      const run: Promise<Tensor> = weight.detach().exp().mul(3).realize();
      const error = await errorOf(run);
      expect(String(error)).toMatch(
        /the device to compute exp mul reshape to \[3\], which reads and writes 48 bytes.*it refuses the commands/s,
      );
      expect(BackendError.isInstance(error) && error.fields).toMatchObject({
        kernel: 'exp mul reshape',
      });
      await expect(device.sync()).rejects.toThrow(/it refuses the commands/);
      device.close();
    }, 60_000);

    test('by having no memory, which it says late, rejects the next call that waits, with the bytes that were asked for', async () => {
      const { gpu, device } = await breakable();
      const pop = gpu.popErrorScope.bind(gpu);
      let allocated = 0;
      const createBuffer = gpu.createBuffer.bind(gpu);
      gpu.createBuffer = (descriptor) => {
        allocated = descriptor.size;
        return createBuffer(descriptor);
      };
      gpu.popErrorScope = async () => {
        const isLarge = allocated >= 4e6;
        const error = await pop();
        return isLarge ? { message: 'no memory' } : error;
      };
      const small = await ones([10]).sum().item();
      expect(small).toBe(10);
      const error = await errorOf(ones([1000, 1000]).add(1).data());
      expect(error).toBeInstanceOf(OutOfMemoryError);
      expect(String(error)).toMatch(/a buffer of 4000000 bytes.*no memory.*smaller batch/s);
      await expect(device.sync()).rejects.toThrow(OutOfMemoryError);
      device.close();
    }, 60_000);
  },
);
