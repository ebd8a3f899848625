import { createThreadsWorld } from '@shardwise/collectives';
import { spawnRanks } from '@shardwise/testing/node';
import { expect, test } from 'vitest';
import { z } from 'zod';
import golden from './golden/pipelines.json' with { type: 'json' };
import { computed, type GoldenTask } from './ranks/pipeline-golden.ts';
import { trainingMs } from './time-limits.ts';

const cuts = { two: ['2'], four: ['1', '2', '3'] };

const tasks = [
  { schedule: 'gpipe', cut: cuts.two },
  { schedule: '1f1b', cut: cuts.two },
  { schedule: 'interleaved1f1b', cut: cuts.four },
  { schedule: 'zb1p', cut: cuts.four },
  { schedule: 'zbv', cut: cuts.four },
] as const satisfies readonly GoldenTask[];

test('pipelines on two ranks have the losses and gradients of PyTorch', async () => {
  const world = createThreadsWorld({ size: 2, arenaBytes: 16 * 1024 * 1024 });
  const moduleUrl = new URL('./ranks/pipeline-golden.ts', import.meta.url);
  const found = await spawnRanks(2, moduleUrl, { world, data: tasks, timeoutMs: trainingMs });
  const ranks = z.array(z.array(computed)).parse(found);
  for (const [index, { schedule }] of tasks.entries()) {
    const expected = golden.schedules[schedule];
    const mean = expected.losses.reduce((sum, loss) => sum + loss, 0) / expected.losses.length;
    const gradients = Object.assign({}, ...ranks.map((rank) => rank[index]?.gradients));
    for (const rank of ranks) expect(rank[index]?.loss, schedule).toBeCloseTo(mean, 6);
    expect(Object.keys(gradients).sort(), schedule).toEqual(Object.keys(expected.gradients).sort());
    for (const [name, values] of Object.entries(expected.gradients)) {
      for (const [place, value] of values.entries()) {
        expect(gradients[name]?.[place], `${schedule}: ${name}[${place}]`).toBeCloseTo(value, 6);
      }
    }
  }
});
