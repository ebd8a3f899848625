// A rank of a training loop that consists only of its collectives. One rank makes a mistake.
import { init, profiler } from 'shardwise/browser';
import type { LiveJob } from '../live-job.ts';
import {
  CALL_LIMIT_MS,
  type HangMessage,
  type HangTask,
  isDumpRequest,
  MISTAKEN_STEP,
} from './hang-task.ts';

const STEPS = 5;
const GRADIENTS = 64;
const context = await init();
const { rank, worldSize, group } = context;
const { culprit, mistake } = (context.data as LiveJob).task as HangTask;

const send = (message: HangMessage): void => context.send(message);
let isSent = false;
const sendDump = (): void => {
  if (isSent) return;
  isSent = true;
  const { entries, ...dump } = recorder.dump();
  // Lines of bundled code tell a reader nothing, so the frames are removed.
  send({
    kind: 'dump',
    dump: { ...dump, entries: entries.map((each) => ({ ...each, frames: [] })) },
  });
};
const recorder = new profiler.FlightRecorder({ rank, worldSize, onFailure: sendDump });
profiler.recordCalls(group, recorder);
globalThis.addEventListener('message', ({ data }: MessageEvent<unknown>) => {
  if (isDumpRequest(data)) sendDump();
});

async function reduceGradients(step: number, count = GRADIENTS): Promise<void> {
  send({ kind: 'call', call: 'allReduce', step });
  const bytes = new Uint8Array(Float32Array.BYTES_PER_ELEMENT * count);
  await group.allReduce({ bytes, dtype: 'f32' }, 'sum', { timeoutMs: CALL_LIMIT_MS });
}

async function endStep(step: number): Promise<void> {
  send({ kind: 'call', call: 'barrier', step });
  await group.barrier({ timeoutMs: CALL_LIMIT_MS });
}

for (let step = 1; step <= STEPS; step += 1) {
  const isMistaken = rank === culprit && step === MISTAKEN_STEP;
  // These are mistakes of real programs: an answer that never comes, and a loop that never ends.
  if (isMistaken && mistake === 'wait') await new Promise<never>(() => {});
  if (isMistaken && mistake === 'busy') for (let turn = 0; ; turn += 1) Math.sqrt(turn);
  if (isMistaken && mistake === 'size') await reduceGradients(step, GRADIENTS / 2);
  else if (!(isMistaken && mistake === 'leave out')) await reduceGradients(step);
  await endStep(step);
}
sendDump();
await context.close();
