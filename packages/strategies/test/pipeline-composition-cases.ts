import { createThreadsWorld } from '@shardwise/collectives';
import { expect } from 'vitest';
import { z } from 'zod';
import { runRanks } from '../../../test/support/run-ranks.ts';
import { type CompositionTask, compositions } from './ranks/pipeline-compositions.ts';
import { trainingMs } from './time-limits.ts';

const moduleUrl = new URL('./ranks/pipeline-compositions.ts', import.meta.url);

/** Trains with each composition on the ranks of a mesh. Expects the results of one rank. */
export async function expectComposed(task: CompositionTask): Promise<void> {
  const size = task.axes.reduce((product, axis) => product * axis.size, 1);
  const world = createThreadsWorld({ size, arenaBytes: 32 * 1024 * 1024 });
  const options = { world, data: task, timeoutMs: trainingMs };
  const ranks = z.array(compositions).parse(await runRanks(size, moduleUrl, options));
  for (const name of task.names) {
    const alone = ranks[0]?.[name]?.alone ?? expect.fail(name);
    for (const rank of ranks) {
      const found = rank[name]?.parallel ?? expect.fail(name);
      const parallel = typeof found === 'string' ? expect.fail(`${name}: ${found}`) : found;
      for (const [step, loss] of alone.losses.entries()) {
        expect(parallel.losses[step], `${name}, step ${step}`).toBeCloseTo(loss, 4);
      }
      for (const [step, norm] of alone.norms.entries()) {
        expect(norm, `${name} clips in step ${step}`).toBeGreaterThan(0.5);
        const found = parallel.norms.at(step - alone.norms.length);
        if (found !== undefined)
          expect(found, `${name}, norm of step ${step}`).toBeCloseTo(norm, 4);
      }
      for (const [index, square] of alone.parameters.entries()) {
        expect(parallel.parameters[index], `${name}, parameter ${index}`).toBeCloseTo(square, 2);
      }
      expect(parallel.held, name).toBeLessThan(alone.held);
    }
  }
}
