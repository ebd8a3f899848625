import {
  findMpis,
  processGroupContract,
  type MpiLauncher,
  type ProcessGroupContract,
} from '@shardwise/testing';
import { afterAll, describe, expect, it } from 'vitest';
import { MpiPool } from './mpi-pool.ts';

const scenarioUrl = new URL('./mpi-scenario.ts', import.meta.url);

for (const found of findMpis()) {
  const title = 'missing' in found ? `${found.name} is not here: ${found.missing}` : found.name;
  describe.skipIf('missing' in found)(title, () => {
    if ('launcher' in found) conforms(found.launcher);
  });
}

function conforms(launcher: MpiLauncher): void {
  const pool = new MpiPool(launcher);
  afterAll(() => pool.end());
  const run: ProcessGroupContract['run'] = (size, scenario) =>
    pool.run(size, scenarioUrl, { name: 'main', data: scenario });

  processGroupContract({
    name: `processes under ${launcher.name}`,
    run,
    sizes: [1, 2, 3, 4],
  });

  it('ints wrap around, also where the processor has sums that do not', async () => {
    const outcomes = await pool.run(2, scenarioUrl, { name: 'overflow', data: undefined });
    for (const outcome of outcomes) {
      expect(outcome).toEqual({ status: 'fulfilled', value: [[254], [-2]] });
    }
  });
}
