import { once } from 'node:events';
import { Worker } from 'node:worker_threads';
import { describe, expect, it } from 'vitest';

describe('two worker threads', () => {
  it('each run their sessions at once in halves of one memory', async () => {
    const memory = new WebAssembly.Memory({ initial: 64, maximum: 64, shared: true });
    const half = memory.buffer.byteLength / 2;
    const results = [1, 2].map(() => new Float32Array(new SharedArrayBuffer(1024)));
    const exits = results.map(async (list, rank) => {
      const region = { memory, byteOffset: rank * half, byteLength: half };
      const worker = new Worker(new URL('./two-workers.worker.ts', import.meta.url), {
        workerData: { ...region, start: rank + 1, results: list },
      });
      return once(worker, 'exit');
    });
    expect(await Promise.all(exits)).toEqual([[0], [0]]);
    expect(results.map((list) => [...new Set(list)])).toEqual([[1], [2]]);
  });
});
