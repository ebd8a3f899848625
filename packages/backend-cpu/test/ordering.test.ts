import { describe, expect, it } from 'vitest';
import { cpu } from '../src/cpu.ts';
import { binary, bytesOf, download, f32, programOf, upload } from './support.ts';

/** A program that computes out = in * in. */
const square = programOf({
  inputs: [f32(3)],
  instructions: [binary('mul', 0, 0, f32(3))],
  outputs: [1],
});

describe('calls on the CPU backend', () => {
  it('take effect in their order without being awaited', async () => {
    const backend = await cpu();
    const executable = await backend.compile(square);
    const [a, b, c] = [
      [2, 3, 4],
      [0, 0, 0],
      [0, 0, 0],
    ].map((values) => upload(backend, values));
    if (a === undefined || b === undefined || c === undefined) throw new Error();
    const runs = [executable.run([a], [b]), executable.run([b], [c])];
    backend.write(a, bytesOf([1, 10, 100]));
    const early = download(backend, a);
    runs.push(executable.run([a], [b]));
    expect(await early).toEqual([1, 10, 100]);
    expect(await download(backend, c)).toEqual([16, 81, 256]);
    expect(await download(backend, b)).toEqual([1, 100, 10_000]);
    await Promise.all(runs);
  });

  it('writes what the bytes were at the call', async () => {
    const backend = await cpu();
    const executable = await backend.compile(square);
    const [input, output] = [upload(backend, [1, 2, 3]), backend.alloc(12)];
    const pending = executable.run([input], [output]);
    const bytes = bytesOf([4, 5, 6]);
    backend.write(input, bytes);
    bytes.fill(0);
    await pending;
    expect(await download(backend, input)).toEqual([4, 5, 6]);
  });

  it('keeps the memory of a buffer that is freed while a run reads it', async () => {
    const backend = await cpu();
    const executable = await backend.compile(square);
    const [input, output] = [upload(backend, [1, 2, 3]), backend.alloc(12)];
    const pending = executable.run([input], [output]);
    backend.free(input);
    upload(backend, [9, 9, 9]);
    expect(() => backend.map(input)).toThrow('it has been freed');
    expect(() => backend.free(input)).toThrow('it has been freed');
    await pending;
    expect(await download(backend, output)).toEqual([1, 4, 9]);
  });

  it('maps the bytes that runs write', async () => {
    const backend = await cpu();
    const executable = await backend.compile(square);
    const [input, output] = [upload(backend, [1, 2, 3]), backend.alloc(12)];
    const bytes = backend.map(output);
    void executable.run([input], [output]);
    await backend.sync();
    expect([...new Float32Array(bytes.buffer, bytes.byteOffset, 3)]).toEqual([1, 4, 9]);
  });

  it('goes on after a run that was refused', async () => {
    const backend = await cpu();
    const executable = await backend.compile(square);
    const [input, output] = [upload(backend, [1, 2, 3]), backend.alloc(12)];
    await expect(executable.run([input], [])).rejects.toThrow('the program has 1');
    await expect(executable.run([input], [output.subBuffer(0, 8)])).rejects.toThrow(
      'takes 12 bytes',
    );
    await executable.run([input], [output]);
    expect(await download(backend, output)).toEqual([1, 4, 9]);
  });

  it('refuses to run what has been disposed of', async () => {
    const backend = await cpu();
    const executable = await backend.compile(square);
    const [input, output] = [upload(backend, [1, 2, 3]), backend.alloc(12)];
    const pending = executable.run([input], [output]);
    executable.dispose();
    await pending;
    expect(await download(backend, output)).toEqual([1, 4, 9]);
    await expect(executable.run([input], [output])).rejects.toThrow('disposed');
  });
});
