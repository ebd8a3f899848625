import { createThreadsWorld } from '@shardwise/collectives';
import { setRank } from '@shardwise/core';
import { interpreter } from '@shardwise/testing';
import { spawnRanks } from '@shardwise/testing/node';
import { beforeAll, describe, expect, it } from 'vitest';
import { z } from 'zod';
import {
  isPossible,
  isPossibleProgram,
  type Outcome,
  outcomes,
  trainAlone,
  variants,
} from './ranks/several-losses.ts';
import { testMs, trainingMs } from './time-limits.ts';

/** Tests every strategy with every program in worlds of these sizes. */
export function severalLossesTable(sizes: readonly number[], programs: readonly string[]): void {
  const alone = new Map<string, Outcome>();

  beforeAll(async () => {
    setRank({ device: interpreter() });
    for (const name of programs) alone.set(name, await trainAlone(name));
  }, testMs);

  describe.each(sizes)('on %i ranks', (size) => {
    let ranks: readonly z.infer<typeof outcomes>[] = [];

    beforeAll(async () => {
      const found = await spawnRanks(size, new URL('./ranks/several-losses.ts', import.meta.url), {
        world: createThreadsWorld({ size, arenaBytes: 64 * 1024 * 1024 }),
        data: programs,
        timeoutMs: trainingMs,
      });
      ranks = z.array(outcomes).length(size).parse(found);
    }, testMs);

    const possible = Object.entries(variants).filter(([, variant]) => isPossible(variant, size));

    describe.each(possible)('%s', (variant, options) => {
      const { hasMaster = false, tolerance = 2e-5 } = options;

      it.each(programs.filter((program) => isPossibleProgram(options, program)))(
        'trains as one rank does: %s',
        (program) => {
          const expected = alone.get(program);
          const each = ranks.map((rank) => rank[`${variant}: ${program}`]);
          const trained = each.filter((one) => typeof one === 'object');
          expect(each, 'no rank throws').toEqual(trained);
          expected?.losses.forEach((loss, index) => {
            const mean = hasMaster
              ? trained[0]?.losses[index]
              : trained.reduce((sum, { losses }) => sum + (losses[index] ?? NaN), 0) / size;
            expect(Math.abs((mean ?? NaN) - loss) / loss).toBeLessThan(tolerance);
          });
          for (const { parameters } of hasMaster ? trained.slice(0, 1) : trained) {
            expect(parameters).toEqual(trained[0]?.parameters);
            expect(Object.keys(parameters)).toEqual(Object.keys(expected?.parameters ?? {}));
            for (const [name, values] of Object.entries(parameters)) {
              values.forEach((value, index) => {
                const difference = value - (expected?.parameters[name]?.[index] ?? NaN);
                expect(Math.abs(difference), `${name}[${index}]`).toBeLessThan(tolerance);
              });
            }
          }
        },
      );
    });
  });
}
