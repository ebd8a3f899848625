import { cpu, setRank } from 'shardwise';
import type { Bench } from './bench.ts';
import { precisionFlag, precisionOf } from './precision.ts';
import { median, round } from './summary.ts';
import { withShares } from './thread-shares.ts';
import { trainAlone } from './training.ts';

/** V8 compiles functions again until about this step, so JavaScript takes a fifth longer before it. */
const WARM_UP = 100;
const STEPS = 120;

/** Measures what one rank's thread is busy with in a training step. */
export const shares: Bench = {
  about:
    'What the thread of one rank is busy with in a step of the GPT: products, loops, JavaScript',
  flags: precisionFlag,
  run: async (values) => {
    const precision = precisionOf(values);
    const device = await cpu();
    setRank({ device });
    const training = trainAlone(0, precision);
    await training.run(WARM_UP);
    const { result: steps, shares: busy } = await withShares(() => training.run(STEPS));
    return {
      rows: [
        ['a step', `${median(steps.map(({ cpuMs }) => cpuMs)).toFixed(1)} ms of processor time`],
        ...[...busy].map(([kind, share]) => [kind, `${(100 * share).toFixed(1)} %`] as const),
      ],
      record: {
        precision,
        products: device.products,
        loops: device.loops,
        cpuMs: round(median(steps.map(({ cpuMs }) => cpuMs)), 1),
        shares: Object.fromEntries([...busy].map(([kind, share]) => [kind, round(share, 4)])),
      },
    };
  },
};
