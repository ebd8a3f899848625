import type { RankLaunch } from './launch.ts';
import { mpiAddress } from './mpi-address.ts';
import { rankNumbers, type RankNames } from './rank-numbers.ts';
import { isSlurmStep } from './slurm.ts';
import { textOf } from './variables.ts';

const hydraNames: RankNames = {
  rank: 'PMI_RANK',
  worldSize: 'PMI_SIZE',
  localRank: 'MPI_LOCALRANKID',
  localWorldSize: 'MPI_LOCALNRANKS',
};

/**
 * Detects a rank of hydra, the mpiexec of MPICH, MVAPICH and Intel MPI. `srun --mpi=pmi2` also sets PMI_RANK and
 * PMI_SIZE, but not the local variables. Such a process is a rank of Slurm. Hydra inside a Slurm job starts its proxies
 * by srun, and their ranks inherit the proxy's SLURM_PROCID.
 */
export function hydraLaunch(env: NodeJS.ProcessEnv): RankLaunch | undefined {
  const { rank, worldSize, localRank, localWorldSize } = hydraNames;
  const isSet = (name: string): boolean => textOf(env, name) !== undefined;
  const isLocal = isSet(localRank) || isSet(localWorldSize);
  if (!isLocal && ((!isSet(rank) && !isSet(worldSize)) || isSlurmStep(env))) return undefined;
  const numbers = rankNumbers(env, hydraNames);
  return {
    kind: 'rank',
    launcher: 'hydra',
    ...numbers,
    nodeRank: undefined,
    ...mpiAddress(env, numbers),
    jobId: undefined,
    restartCount: undefined,
    maxRestarts: undefined,
  };
}
