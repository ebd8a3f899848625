// Measures the devices of this page while nothing else runs: products of matrices, and a training on one rank.
import { manualSeed, randn, setRank, type Backend } from '@shardwise/core';
import { chooseDevice } from 'shardwise/browser';
import type { BenchmarkMessage, DeviceKind } from './benchmark-messages.ts';
import { trainGpt } from './train-gpt.ts';

const SIZES = [256, 512, 1024];
const RUNS = 5;

const post = (message: BenchmarkMessage): void => globalThis.postMessage(message);

async function measure(backend: Backend, device: DeviceKind): Promise<void> {
  setRank({ device: backend });
  manualSeed(1);
  for (const size of SIZES) {
    const [a, b] = [randn([size, size]), randn([size, size])];
    await a.realize();
    await b.realize();
    let milliseconds = Infinity;
    for (let run = 0; run < RUNS; run += 1) {
      const began = performance.now();
      // Only the corner is read. So the time includes the whole product, and no long transfer.
      await a.matmul(b).slice(0, 0, 1).slice(1, 0, 1).data();
      milliseconds = Math.min(milliseconds, performance.now() - began);
    }
    post({ kind: 'figure', figure: { kind: 'product', device, size, milliseconds } });
  }
  const trained = await trainGpt(0, 1, async (network) => network);
  post({ kind: 'figure', figure: { kind: 'training', device, ranks: 1, ...trained } });
}

async function run(): Promise<void> {
  const { wasm } = await import('@shardwise/backend-cpu/wasm');
  await measure(await wasm(), 'wasm');
  // A WebGPU that computes on the CPU would take minutes, and 'auto' does not choose it.
  const { kind, reason } = await chooseDevice('auto', 1);
  if (kind === 'webgpu') {
    const { webgpu } = await import('@shardwise/backend-webgpu');
    await measure(await webgpu(), 'webgpu');
  } else post({ kind: 'skipped', reason });
  post({ kind: 'done' });
}

run().catch((error: unknown) => post({ kind: 'failed', message: String(error) }));
