import { parentPort } from 'node:worker_threads';
import { cpu } from '../src/cpu.ts';
import { prepareLongRun } from './long-run.ts';
import { turnsDuring } from './turns-during.ts';

// Reports how often the event loop of a thread turns during a long run.
const { executable, inputs, outputs } = await prepareLongRun(await cpu(), 40);
parentPort?.postMessage(
  await turnsDuring(() => executable.run(inputs, outputs, { overlap: true })),
);
