// Measures products of matrices on the devices of this page.
import { manualSeed, randn, setRank, type Backend } from '@shardwise/core';
import type { BenchmarkMessage, Measurement } from './benchmark-messages.ts';

const SIZES = [256, 512, 1024];
const RUNS = 5;

const post = (message: BenchmarkMessage): void => globalThis.postMessage(message);

async function measure(device: Backend, kind: Measurement['device']): Promise<void> {
  setRank({ device });
  manualSeed(1);
  for (const size of SIZES) {
    const [a, b] = [randn([size, size]), randn([size, size])];
    await a.realize();
    await b.realize();
    let milliseconds = Infinity;
    for (let run = 0; run < RUNS; run += 1) {
      const began = performance.now();
      // The corner is read, so that the time has all of the product in it and none of a long transfer.
      await a.matmul(b).slice(0, 0, 1).slice(1, 0, 1).data();
      milliseconds = Math.min(milliseconds, performance.now() - began);
    }
    post({
      kind: 'measured',
      measurement: {
        device: kind,
        size,
        milliseconds,
        gigaflops: (2 * size ** 3) / milliseconds / 1e6,
      },
    });
  }
}

async function run(): Promise<void> {
  const { wasm } = await import('@shardwise/backend-cpu/wasm');
  await measure(await wasm(), 'wasm');
  try {
    const { webgpu } = await import('@shardwise/backend-webgpu');
    await measure(await webgpu(), 'webgpu');
  } catch (error) {
    post({
      kind: 'skipped',
      device: 'webgpu',
      reason: error instanceof Error ? error.message : String(error),
    });
  }
  post({ kind: 'done' });
}

run().catch((error: unknown) => post({ kind: 'failed', message: String(error) }));
