import { createSharedMemory } from '@shardwise/wasm-assembler';
import { expect, it, vi } from 'vitest';
import { CpuBackend } from '../src/cpu-backend.ts';
import { Arena } from '../src/memory/arena.ts';
import { nativeOrWasm } from '../src/cpu.ts';
import { libraryPath } from '../src/engines/onnx/runtime/library-path.ts';
import { download, f32, matmul, programOf, unary, upload } from './support.ts';

it('computes by WebAssembly, and says so, where ONNX Runtime has no library for the system', async () => {
  const warn = vi.spyOn(console, 'warn').mockReturnValue(undefined);
  const arena = new Arena(createSharedMemory(2 ** 24));
  const parts = await nativeOrWasm(arena, () => {
    throw new Error(libraryPath('linux-riscv64'));
  });
  expect(warn.mock.calls).toEqual([
    [expect.stringMatching(/^shardwise: WebAssembly alone .* no library for linux-riscv64/)],
  ]);
  warn.mockRestore();

  const backend = new CpuBackend(parts);
  expect(backend.name).toBe('wasm');
  const type = f32(2, 2);
  const executable = await backend.compile(
    programOf({
      inputs: [type],
      instructions: [unary('sin', 0, type), matmul(1, 1, type)],
      outputs: [2],
    }),
  );
  const [input, output] = [upload(backend, [0, Math.PI / 2, 1, 0]), backend.alloc(16)];
  await executable.run([input], [output]);
  const [a = 0, b = 0, c = 0, d = 0] = await download(backend, output);
  const sine = Math.sin(1);
  for (const [found, meant] of [
    [a, sine],
    [b, 0],
    [c, 0],
    [d, sine],
  ] as const) {
    expect(found).toBeCloseTo(meant, 6);
  }
});
