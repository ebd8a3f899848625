import { createThreadsWorld } from '@shardwise/collectives';
import { setRank } from '@shardwise/core';
import { interpreter } from '@shardwise/testing';
import * as fc from 'fast-check';
import { beforeAll, describe, expect, it } from 'vitest';
import { z } from 'zod';
import { runRanks } from '../../../test/support/run-ranks.ts';
import {
  actionNames,
  batchUseNames,
  type Outcome,
  outcomesSchema,
  parameterCount,
  type Program,
  strategiesFor,
  trainAlone,
  useNames,
} from './ranks/uses-outside-forward.ts';
import { testMs, trainingMs } from './time-limits.ts';

const parameter = fc.nat(parameterCount - 1);
const use = fc.record({ name: fc.constantFrom(...useNames), parameter });
const program: fc.Arbitrary<Program> = fc.record({
  inside: fc.array(use, { maxLength: 2 }),
  outside: fc.array(use, { maxLength: 3 }),
  batch: fc.uniqueArray(fc.constantFrom(...batchUseNames)),
  action: fc.constantFrom(...actionNames),
  parameter,
  microbatches: fc.integer({ min: 1, max: 2 }),
  frozen: fc.option(parameter, { freq: 3 }),
});
const random = fc.sample(program, { seed: 7, numRuns: 8 });
/** Every use and every parameter occurs at least once. */
const all = Array.from({ length: parameterCount }, (_, index) => ({
  name: useNames[index % useNames.length] ?? 'a temperature',
  parameter: index,
}));
const none = { inside: [], outside: [], batch: [], frozen: null, microbatches: 1 } as const;
const programs: Program[] = [
  { ...none, inside: all, action: 'nothing', parameter: 0 },
  { ...none, outside: all, batch: batchUseNames, action: 'nothing', parameter: 0 },
  ...actionNames.map((action) => ({ ...none, action, parameter: 2 })),
  ...random,
];
const texts = programs.map((each) => JSON.stringify(each));

const alone = new Map<string, Outcome>();

beforeAll(async () => {
  setRank({ device: interpreter() });
  for (const [index, each] of programs.entries()) {
    alone.set(texts[index] ?? '', await trainAlone(each));
  }
});

const meshes = [
  { dp: 1, tp: 1 },
  { dp: 3, tp: 1 },
  { dp: 1, tp: 2 },
  { dp: 2, tp: 2 },
];

describe.each(meshes)(
  'a model whose parameters are used outside of its forward pass, on a mesh of dp $dp, tp $tp',
  (mesh) => {
    const size = mesh.dp * mesh.tp;
    let ranks: readonly z.infer<typeof outcomesSchema>[] = [];

    beforeAll(async () => {
      const url = new URL('./ranks/uses-outside-forward.ts', import.meta.url);
      const world = createThreadsWorld({ size, arenaBytes: 1024 * 1024 });
      const data = { ...mesh, programs };
      const found = await runRanks(size, url, { world, data, timeoutMs: trainingMs });
      ranks = z.array(outcomesSchema).length(size).parse(found);
    }, testMs);

    it.each(Object.keys(strategiesFor(mesh)))('trains as one rank does: %s', (name) => {
      for (const [index, text] of texts.entries()) {
        const expected = alone.get(text);
        const found = ranks.map((rank) => rank[name]?.[index]);
        expected?.losses.forEach((loss, step) => {
          const sum = found.reduce((total, each) => total + (each?.losses[step] ?? NaN), 0);
          expect(Math.abs(sum / size - loss), `step ${step} of ${text}`).toBeLessThan(1e-5);
        });
        for (const each of found) {
          expect(each?.numbers, text).toHaveLength(expected?.numbers.length ?? -1);
          expected?.numbers.forEach((number, at) => {
            expect(Math.abs((each?.numbers[at] ?? NaN) - number), text).toBeLessThan(1e-5);
          });
        }
      }
      expect(texts).toHaveLength(2 + actionNames.length + random.length);
    });
  },
);
