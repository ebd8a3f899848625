import { mpiContract } from './mpi-contract.ts';

mpiContract({ sizes: [1, 2, 3, 4] });
