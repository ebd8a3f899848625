import { Worker } from 'node:worker_threads';
import { expect, test } from 'vitest';
import { sharedMemory } from './kernel-fixture.ts';

const ELEMENTS = 4096;
const STEPS = 50;

/** Adds 1 to its half of the memory, STEPS times. */
const source = (first: number): string => `
  const { workerData, parentPort } = require('node:worker_threads');
  Promise.all(workerData.modules.map((module) => import(module))).then(([planner, linker]) => {
    const shape = [${ELEMENTS}];
    const f32 = { shape, dtype: 'f32' };
    const scalar = { shape: [1], dtype: 'f32' };
    const plan = planner.planKernels({
      values: [f32, scalar, f32, f32],
      instructions: [
        { op: 'constant', inputs: [], params: { value: 1, ...scalar }, ...scalar, output: 1 },
        { op: 'expand', inputs: [1], params: { shape }, ...f32, output: 2 },
        { op: 'add', inputs: [0, 2], params: {}, ...f32, output: 3 },
      ],
      outputs: [],
      inPlace: new Map([[3, 0]]),
    });
    const executable = linker.linkKernels({ memory: workerData.memory, loops: null }, plan);
    for (let i = 0; i < ${STEPS}; i++) executable.run(() => ${first});
    parentPort.postMessage(executable.storage.length);
  });
`;

test('two threads run kernels on one memory at once', async () => {
  const memory = sharedMemory(1 << 20);
  const modules = ['plan', 'link'].map(
    (verb) => new URL(`../../src/kernels/${verb}-kernels.ts`, import.meta.url).href,
  );
  const finished = [0, ELEMENTS * 4].map((first) => {
    const worker = new Worker(source(first), { eval: true, workerData: { memory, modules } });
    return new Promise<unknown>((resolve, reject) => {
      worker.once('message', resolve);
      worker.once('error', reject);
    });
  });
  expect(await Promise.all(finished)).toEqual([0, 0]);
  const values = new Float32Array(memory.buffer, 0, 2 * ELEMENTS);
  expect(new Set(values)).toEqual(new Set([STEPS]));
});
