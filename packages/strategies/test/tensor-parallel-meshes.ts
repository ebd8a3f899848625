import { cpu } from '@shardwise/backend-cpu';
import { createThreadsWorld } from '@shardwise/collectives';
import { setRank } from '@shardwise/core';
import { spawnRanks } from '@shardwise/testing/node';
import { beforeAll, describe, expect, it } from 'vitest';
import { z } from 'zod';
import { trainings } from './ranks/tensor-parallel-models.ts';
import {
  batchStrategies,
  type MeshSizes,
  results,
  type TableTask,
  trainAlone,
  type Trained,
} from './ranks/tensor-parallel-table.ts';
import { testMs, trainingMs } from './time-limits.ts';

/** The tolerance for sums that were added in another order. */
const TOLERANCE = 1e-5;

/** Tests every training of this many steps on every mesh. */
export function tensorParallelTable(meshes: readonly MeshSizes[], steps: number): void {
  const alone = new Map<string, Trained>();

  beforeAll(async () => {
    setRank({ device: await cpu() });
    for (const [name, training] of Object.entries(trainings)) {
      alone.set(name, await trainAlone(training, steps));
    }
  }, testMs);

  describe.each(meshes)(
    'tensor parallelism on a mesh of replicas $replicas, dp $dp, tp $tp',
    (mesh) => {
      const { replicas, dp, tp } = mesh;
      const size = replicas * dp * tp;
      let ranks: readonly z.infer<typeof results>[] = [];

      beforeAll(async () => {
        const world = createThreadsWorld({ size, arenaBytes: 64 * 1024 * 1024 });
        const data: TableTask = { mesh, steps };
        const found = await spawnRanks(
          size,
          new URL('./ranks/tensor-parallel-table.ts', import.meta.url),
          { world, data, timeoutMs: trainingMs },
        );
        ranks = z.array(results).parse(found);
      }, testMs);

      const names = Object.keys(batchStrategies(mesh)).map((name) => `${name}: `);
      const over = names.length === 0 ? [''] : names;

      it.each(
        over.flatMap((each) => Object.keys(trainings).map((name) => [`${each}${name}`, name])),
      )('trains %s as one rank does', (key, name) => {
        const each = ranks.flatMap((rank) => rank[key] ?? []);
        expect(each).toHaveLength(size);
        const expected = alone.get(name);
        expect(expected?.losses).toHaveLength(steps);
        expected?.losses.forEach((loss, step) => {
          // All ranks along tp report the same loss.
          const mean = each.reduce((sum, { losses }) => sum + (losses[step] ?? NaN), 0) / size;
          expect(Math.abs(mean - loss) / loss, `loss of step ${step}`).toBeLessThan(TOLERANCE);
        });
        for (let first = 0; first < size; first += tp) {
          for (const { losses } of each.slice(first, first + tp)) {
            expect(losses).toEqual(each[first]?.losses);
          }
        }
        expected?.norms.forEach((norm, step) => {
          for (const { norms } of each) {
            expect(
              Math.abs((norms[step] ?? NaN) - norm) / norm,
              `norm of step ${step}`,
            ).toBeLessThan(1e-4);
          }
        });
        expect(new Set(each.map(({ hash }) => hash)).size).toBe(1);
      });
    },
  );
}
