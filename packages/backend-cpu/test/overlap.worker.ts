import { parentPort } from 'node:worker_threads';
import { cpu } from '../src/cpu.ts';
import { prepareLongRun } from './long-run.ts';

// Reports when a run is under way, and starts the next run when that one is done.
const { executable, inputs, outputs } = await prepareLongRun(await cpu(), 60);
for (;;) {
  const done = executable.run(inputs, outputs, { overlap: true });
  setImmediate(() => parentPort?.postMessage('running'));
  await done;
}
