import { startRanks } from '../ranks.ts';
import { residentBytes } from '../resident-bytes.ts';
import { longSettings } from './long-settings.ts';

// node bench/context-parallel/long-run.ts RANKS STEPS SETTINGS
// Trains on a long sequence in a process of its own, so that the resident memory of the process is that of the training.
// Prints a line for each step: the time, the processor time, the loss, and the highest memory so far.

const [, , ranks = '', steps = '', text = ''] = process.argv;
const settings = longSettings.parse(JSON.parse(text));
const world = startRanks(Number(ranks), 'context-parallel/long-rank.ts', {
  contestant: JSON.stringify(settings),
  precision: 'f32',
});
for (let step = 0; step < Number(steps); step++) {
  const before = process.cpuUsage();
  const [first] = await world.round({ mode: 'together', steps: 1 });
  const { user, system } = process.cpuUsage(before);
  console.log(
    JSON.stringify({
      ms: first?.msPerStep,
      processorMs: (user + system) / 1000,
      loss: first?.losses.at(-1),
      bytes: first?.communicationBytes,
      peakBytes: residentBytes('VmHWM'),
    }),
  );
}
await world.close();
