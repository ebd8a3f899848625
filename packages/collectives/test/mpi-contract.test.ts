import { expect, it } from 'vitest';
import { mpiContract } from './mpi-contract.ts';

const scenarioUrl = new URL('./mpi-scenario.ts', import.meta.url);

mpiContract({ sizes: [2, 3], randomCalls: 15 }, (pool) => {
  it('ints wrap around, also where the processor has sums that do not', async () => {
    const outcomes = await pool.run(2, scenarioUrl, { name: 'overflow', data: undefined });
    for (const outcome of outcomes) {
      expect(outcome).toEqual({ status: 'fulfilled', value: [[254], [-2]] });
    }
  });
});
