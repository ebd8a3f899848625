import { createThreadsWorld } from '@shardwise/collectives';
import { expect, test } from 'vitest';
import { runRanks } from './support/run-ranks.ts';
import { collectives, local } from './ranks/axis-type-programs.ts';
import type { AxisTypesTask, Findings } from './ranks/axis-types.ts';

async function findingsOf(data: AxisTypesTask): Promise<Findings> {
  const url = new URL('./ranks/axis-types.ts', import.meta.url);
  const world = createThreadsWorld({ size: 2 });
  const [findings, other] = (await runRanks(2, url, { world, data })) as readonly Findings[];
  expect(other).toEqual(findings);
  if (findings === undefined) throw new TypeError('rank 0 found nothing');
  return findings;
}

const operations = [...Object.keys(local), ...Object.keys(collectives)];
const seeds = Array.from({ length: 100 }, (_, index) => index + 1);

test('random programs of two ranks that are accepted have the values and gradients that their types say, also with a collective left out or changed', async () => {
  const findings = await findingsOf({ seeds, declares: true });
  expect(findings.wrongValues).toEqual([]);
  expect(findings.wrongGradients).toEqual([]);
  expect(Object.keys(findings.taken).toSorted()).toEqual(operations.toSorted());
  expect(findings.gradients).toBeGreaterThan(80);
  expect(findings.acceptedMutants).toBeGreaterThan(20);
  expect(findings.mutants - findings.acceptedMutants).toBeGreaterThan(20);
});

test('values of which nobody has said anything never make one that is said to be the same on all ranks', async () => {
  const findings = await findingsOf({ seeds: seeds.slice(0, 50), declares: false });
  expect(findings.wrongValues).toEqual([]);
  expect(findings.programs).toBe(50);
});
