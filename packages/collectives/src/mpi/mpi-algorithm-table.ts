import type { AlgorithmTable } from '../group/selection/algorithm-table.ts';

const KiB = 1024;
const GiB = 1024 ** 3;

/** Measured on one host, and set down by hand: runs on a busy machine disagreed on long messages. */
export const mpiAlgorithmTable: AlgorithmTable = {
  madeBy: 'the loop of bench/peers/mpi-group.ts, Open MPI 5.0 and MPICH 5.0, 2 ranks',
  machine: '2 cores of an Intel Xeon, busy with other work, Node 24.21',
  rules: [
    { operation: 'allReduce', hosts: 'one', ranks: 2, upToBytes: 64 * KiB, algorithm: 'direct' },
    { operation: 'allReduce', hosts: 'one', ranks: 3, upToBytes: 16 * KiB, algorithm: 'direct' },
    { operation: 'allGather', hosts: 'one', ranks: 2, upToBytes: GiB, algorithm: 'native' },
    { operation: 'broadcast', hosts: 'one', ranks: 2, upToBytes: null, algorithm: 'native' },
    { operation: 'barrier', hosts: 'one', ranks: 2, upToBytes: null, algorithm: 'meeting' },
  ],
};
