import { workerData } from 'node:worker_threads';
import { cpu } from '../src/cpu.ts';
import { binary, download, f32, matmul, programOf, upload } from './support.ts';

interface Task {
  readonly memory: WebAssembly.Memory;
  readonly byteOffset: number;
  readonly byteLength: number;
  readonly start: number;
  /** The 256 results are written here. */
  readonly results: Float32Array;
}

const { start, results, ...region }: Task = workerData;
const backend = await cpu(region);
const type = f32(16, 16);
const executable = await backend.compile(
  programOf({
    inputs: [type, type],
    instructions: [matmul(0, 1, type), binary('add', 2, 0, type)],
    updates: [{ target: 0, value: 3 }],
  }),
);
const filled = (value: number): number[] => Array.from({ length: 256 }, () => value);
const state = upload(backend, filled(start));
const zeros = upload(backend, filled(0));
for (let i = 0; i < 300; i++) await executable.run([state, zeros], []);
results.set(await download(backend, state));
