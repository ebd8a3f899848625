import { processGroupSuite, type ProcessGroupContract } from '@shardwise/testing';
import { findMpis, type MpiLauncher } from '@shardwise/testing/node';
import { testSuite } from '@shardwise/testing/vitest';
import { afterAll, describe } from 'vitest';
import { MpiPool } from './mpi-pool.ts';

const scenarioUrl = new URL('./mpi-scenario.ts', import.meta.url);

/** Runs the contract under every MPI that is installed here, and the tests that `more` adds. */
export function mpiContract(
  options: Pick<ProcessGroupContract, 'sizes' | 'randomCalls'>,
  more?: (pool: MpiPool) => void,
): void {
  for (const found of findMpis()) {
    const title = 'missing' in found ? `${found.name} is not here: ${found.missing}` : found.name;
    describe.skipIf('missing' in found)(title, () => {
      if ('launcher' in found) conforms(found.launcher, options, more);
    });
  }
}

function conforms(
  launcher: MpiLauncher,
  options: Pick<ProcessGroupContract, 'sizes' | 'randomCalls'>,
  more?: (pool: MpiPool) => void,
): void {
  const pool = new MpiPool(launcher);
  afterAll(() => pool.end());
  testSuite(
    processGroupSuite({
      name: `processes under ${launcher.name}`,
      run: (size, scenario) => pool.run(size, scenarioUrl, { name: 'main', data: scenario }),
      ...options,
    }),
  );
  more?.(pool);
}
