import type { AlgorithmTable } from '../group/selection/algorithm-table.ts';

const KiB = 1024;

export const mpiAlgorithmTable: AlgorithmTable = {
  madeBy: 'TODO',
  machine: '2 cores',
  rules: [
    { operation: 'allReduce', hosts: 'one', ranks: 2, upToBytes: 16 * KiB, algorithm: 'direct' },
  ],
};
