import { fork } from 'node:child_process';
import { once } from 'node:events';
import { availableParallelism } from 'node:os';
import { Worker } from 'node:worker_threads';
import { describe, expect, it } from 'vitest';
import { cpu } from '../src/cpu.ts';
import { prepareLongRun } from './long-run.ts';
import { turnsDuring } from './turns-during.ts';
import { binary, download, f32, matmul, programOf, upload } from './support.ts';

describe('a run that other work is to overlap', () => {
  it('leaves the event loop free while a session computes', async () => {
    const { executable, inputs, outputs } = await prepareLongRun(await cpu(), 40);
    const overlapped = (): Promise<void> => executable.run(inputs, outputs, { overlap: true });
    expect(await turnsDuring(overlapped)).toBeGreaterThan(100);
    expect(await turnsDuring(() => executable.run(inputs, outputs))).toBeLessThan(5);
  });

  it('lets the event loop turn between kernels that block it', async () => {
    const backend = await cpu();
    const type = f32(1 << 22);
    const add = await backend.compile(
      programOf({ inputs: [type], instructions: [binary('add', 0, 0, type)], outputs: [1] }),
    );
    const [x, y] = [backend.alloc(4 << 22), backend.alloc(4 << 22)];
    const repeat = async (overlap: boolean): Promise<void> => {
      for (let i = 0; i < 20; i++) await add.run([x], [y], { overlap });
    };
    expect(await turnsDuring(() => repeat(true))).toBeGreaterThanOrEqual(10);
    expect(await turnsDuring(() => repeat(false))).toBeLessThan(5);
  });

  const blocks = { held: 'blocks, product by product,', fewest: 0, most: 60 };
  const leavesFree = { held: 'leaves free', fewest: 100, most: Number.POSITIVE_INFINITY };

  it.each([
    { pool: '0', ranks: 1, ...blocks },
    { pool: '64', ranks: availableParallelism() - 1, ...leavesFree },
    // Where ranks use all cores, another thread has none to compute on.
    { pool: '64', ranks: availableParallelism(), ...blocks },
  ])(
    '$held a thread of a process whose pool has $pool threads, on a host of $ranks ranks',
    async ({ pool, ranks, fewest, most }) => {
      const worker = new Worker(new URL('./overlap-turns.worker.ts', import.meta.url), {
        env: { ...process.env, UV_THREADPOOL_SIZE: pool, LOCAL_WORLD_SIZE: String(ranks) },
      });
      const [turns] = await once(worker, 'message');
      expect(turns).toBeGreaterThanOrEqual(fewest);
      expect(turns).toBeLessThan(most);
      await worker.terminate();
    },
  );

  it('computes the same bits', async () => {
    const backend = await cpu();
    const type = f32(2, 2);
    const program = programOf({
      inputs: [type, type],
      instructions: [matmul(0, 1, type), binary('add', 2, 0, type)],
      outputs: [3],
    });
    const executable = await backend.compile(program);
    const inputs = [
      [0.1, 0.2, 0.3, 0.4],
      [1.5, -2, 0.7, 1e-3],
    ].map((values) => upload(backend, values));
    const results: number[][] = [];
    for (const overlap of [true, false]) {
      const output = backend.alloc(16);
      await executable.run(inputs, [output], { overlap });
      results.push(await download(backend, output));
    }
    expect(results[0]).toEqual(results[1]);
    expect(results[0]?.[3]).toBeCloseTo(0.3 * -2 + 0.4 * 1e-3 + 0.4);
  });

  it('keeps its place among the other calls, which the free thread makes meanwhile', async () => {
    const backend = await cpu();
    const { executable, inputs, outputs } = await prepareLongRun(backend, 40);
    const [input] = inputs;
    if (input === undefined) throw new Error();
    const identity = new Float32Array(512 * 512);
    for (let i = 0; i < 512; i++) identity[i * 513] = 1;
    backend.write(input, new Uint8Array(identity.buffer));
    const run = executable.run(inputs, outputs, { overlap: true });
    await new Promise(setImmediate);
    backend.write(input, new Uint8Array(identity.byteLength));
    for (const buffer of inputs) backend.free(buffer);
    await run;
    const [output] = outputs;
    expect(output && (await download(backend, output))).toEqual([...identity]);
  });
});

describe('a thread or process that ends during such a run', () => {
  it('ends when the run does, and leaves the process to others', async () => {
    const backend = await cpu();
    const mine = await prepareLongRun(backend, 2);
    for (let round = 0; round < 2; round++) {
      const env = { ...process.env, UV_THREADPOOL_SIZE: '64' };
      const workers = [0, 1].map(
        () => new Worker(new URL('./overlap.worker.ts', import.meta.url), { env }),
      );
      await Promise.all(workers.map((worker) => once(worker, 'message')));
      const codes = await Promise.all(workers.map((worker) => worker.terminate()));
      expect(codes).toEqual([1, 1]);
    }
    await expect(mine.executable.run(mine.inputs, mine.outputs)).resolves.toBeUndefined();
  });

  it('exits with the code that it was to exit with', async () => {
    const child = fork(new URL('./overlap-exit.ts', import.meta.url));
    expect(await once(child, 'exit')).toEqual([7, null]);
  });
});
