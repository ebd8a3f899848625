import { BackendError, ConfigError, OutOfMemoryError } from '@shardwise/core/spec';
import { memoryLimits } from '@shardwise/wasm-assembler';
import { describe, expect, it } from 'vitest';
import { cpu } from '../src/cpu.ts';
import { f32, programOf, unary } from './support.ts';

describe('the CPU backend', () => {
  it('refuses dtypes that it does not compute with', async () => {
    const backend = await cpu();
    const type = { shape: [2], dtype: 'f64' } as const;
    const program = programOf({
      inputs: [type],
      instructions: [unary('sin', 0, type)],
      outputs: [1],
    });
    await expect(backend.compile(program)).rejects.toThrow('to compute with f64 in sin');
  });

  it('refuses a program that reads values it does not have', async () => {
    const backend = await cpu();
    const program = programOf({
      inputs: [f32(2)],
      instructions: [unary('sin', 5, f32(2))],
      outputs: [1],
    });
    await expect(backend.compile(program)).rejects.toThrow(BackendError);
  });

  it('throws OutOfMemoryError and goes on when a program needs more than there is', async () => {
    const memory = new WebAssembly.Memory({ initial: 1, maximum: 1, shared: true });
    const backend = await cpu({ memory });
    expect(() => backend.alloc(70_000)).toThrow(OutOfMemoryError);
    expect(backend.alloc(60_000).byteLength).toBe(60_000);
  });

  it('refuses a memory that the machine or WebAssembly does not have, and says how much there can be', async () => {
    const { largestBytes, reason } = memoryLimits();
    await expect(cpu({ byteLength: largestBytes + 1 })).rejects.toThrow(
      `a memory of ${largestBytes + 65_536} bytes: ${reason}. Pass a byteLength of at most ${largestBytes}`,
    );
  });

  it('refuses a byteOffset without a memory', async () => {
    await expect(cpu({ byteOffset: 64 })).rejects.toThrow('Pass the memory too');
  });

  it('makes a memory of the byteLength that an option gives', async () => {
    const sizes = [2 ** 20, 5 * 2 ** 30];
    const backends = await Promise.all(sizes.map((byteLength) => cpu({ byteLength })));
    expect(backends.map((backend) => backend.usage().capacityBytes)).toEqual(sizes);
  });

  it('refuses sub-buffers that start in the middle of a vector', async () => {
    const backend = await cpu();
    const executable = await backend.compile(
      programOf({ inputs: [f32(2)], instructions: [unary('sin', 0, f32(2))], outputs: [1] }),
    );
    const [input, output] = [backend.alloc(16), backend.alloc(8)];
    const run = executable.run([input.subBuffer(4, 8)], [output]);
    await expect(run).rejects.toThrow('multiples of 16 bytes');
  });

  it('refuses a number of threads that is none', async () => {
    await expect(cpu({ threads: 0 })).rejects.toThrow(ConfigError);
  });
});
