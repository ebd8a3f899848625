import type { DeviceBuffer, Executable, Program, RunOptions } from '@shardwise/core/spec';
import { describe, expect, it, vi } from 'vitest';
import { cpu, type CpuBackend } from '../src/index.ts';

const matrix = { shape: [32, 32], dtype: 'f32' } as const;

/** exp(a b + a) c: two products, and a loop behind the first one. */
const program: Program = {
  inputs: [matrix, matrix, matrix],
  instructions: [
    { op: 'matmul', params: { transposeA: false, transposeB: false }, inputs: [0, 1], ...matrix },
    { op: 'add', params: {}, inputs: [3, 0], ...matrix },
    { op: 'exp', params: {}, inputs: [4], ...matrix },
    { op: 'matmul', params: { transposeA: false, transposeB: false }, inputs: [5, 2], ...matrix },
  ],
  outputs: [6],
  updates: [],
};

async function prepared(): Promise<{ run: (options?: RunOptions) => Promise<void> }> {
  const device: CpuBackend = await cpu();
  const executable: Executable = await device.compile(program);
  const bytes = 32 * 32 * 4;
  const inputs: DeviceBuffer[] = [0, 1, 2].map(() => device.alloc(bytes));
  for (const input of inputs) device.write(input, new Uint8Array(bytes));
  const outputs = [device.alloc(bytes)];
  return { run: (options) => executable.run(inputs, outputs, options) };
}

describe('the parts of a program', () => {
  it('are told with the instructions that they compute, each once, in an order in which they can run', async () => {
    const { run } = await prepared();
    const told: number[] = [];
    const times: number[] = [];
    await run({
      onPart: (instructions, durationMs) => {
        told.push(...instructions);
        times.push(durationMs);
      },
    });
    // The first product may be one instruction with what is added to it.
    expect(told.filter((instruction) => instruction > 0)).toEqual([1, 2, 3]);
    expect(times.length).toBeGreaterThanOrEqual(2);
    expect(Math.min(...times)).toBeGreaterThanOrEqual(0);
  });

  it('read no clock if nobody asks', async () => {
    const { run } = await prepared();
    await run();
    const clock = vi.spyOn(performance, 'now');
    await run();
    expect(clock).not.toHaveBeenCalled();
    await run({ onPart: () => {} });
    expect(clock).toHaveBeenCalled();
    clock.mockRestore();
  });
});
