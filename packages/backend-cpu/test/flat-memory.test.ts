import { describe, expect, it } from 'vitest';
import { cpu } from '../src/cpu.ts';
import { binary, download, f32, matmul, programOf, unary, upload } from './support.ts';

const type = f32(8, 8);
const program = programOf({
  inputs: [type, type],
  instructions: [
    matmul(0, 1, type),
    unary('sin', 2, type),
    matmul(3, 1, type),
    binary('add', 4, 0, type),
  ],
  outputs: [5],
  updates: [{ target: 0, value: 5 }],
});

describe('a compiled program', () => {
  it('runs 1000 times in the memory of the first run', async () => {
    const backend = await cpu();
    const executable = await backend.compile(program);
    const values = Array.from({ length: 64 }, (_, i) => (i % 7) / 70);
    const buffers = [upload(backend, values), upload(backend, values)];
    const output = backend.alloc(256);
    await executable.run(buffers, [output]);
    const { bytesInUse } = backend.usage();
    for (let i = 0; i < 1000; i++) await executable.run(buffers, [output]);
    expect(backend.usage()).toMatchObject({ bytesInUse, peakBytes: bytesInUse });
    expect((await download(backend, output)).every(Number.isFinite)).toBe(true);
  });

  it('says what its temporaries take before it is compiled', async () => {
    const backend = await cpu();
    const values = Array.from({ length: 64 }, () => 0.5);
    const buffers = [upload(backend, values), upload(backend, values)];
    const output = backend.alloc(256);
    const { bytesInUse } = backend.usage();
    const planned = backend.temporaryBytes(program);
    expect(backend.usage().bytesInUse).toBe(bytesInUse);
    const executable = await backend.compile(program);
    await executable.run(buffers, [output]);
    expect(planned).toBeGreaterThan(0);
    expect(backend.usage().bytesInUse - bytesInUse).toBe(planned);
  });

  it('gives its temporaries back when the last executable is disposed of', async () => {
    const backend = await cpu();
    const executables = [await backend.compile(program), await backend.compile(program)];
    const values = Array.from({ length: 64 }, () => 0.5);
    const buffers = [upload(backend, values), upload(backend, values), backend.alloc(256)];
    const [a, b, output] = buffers;
    if (a === undefined || b === undefined || output === undefined) throw new Error();
    for (const executable of executables) await executable.run([a, b], [output]);
    for (const executable of executables) executable.dispose();
    for (const buffer of buffers) backend.free(buffer);
    await backend.sync();
    expect(backend.usage().bytesInUse).toBe(0);
  });
});
