import type { LaunchAddress, RankLaunch } from './launch.ts';
import { type RankNames, rankNumbers, type RankNumbers } from './rank-numbers.ts';
import { hostOf, jobIdOf, portOf, textOf } from './variables.ts';
import { isSlurmStep } from './slurm.ts';

const openMpiNames: RankNames = {
  rank: 'OMPI_COMM_WORLD_RANK',
  worldSize: 'OMPI_COMM_WORLD_SIZE',
  localRank: 'OMPI_COMM_WORLD_LOCAL_RANK',
  localWorldSize: 'OMPI_COMM_WORLD_LOCAL_SIZE',
};

/**
 * Detects a rank of Open MPI's mpirun, versions 2 to 5. OMPI_COMM_WORLD_NODE_RANK is not used, because it counts the
 * ranks on this node and not the nodes.
 */
export function openMpiLaunch(env: NodeJS.ProcessEnv): RankLaunch | undefined {
  if (Object.values(openMpiNames).every((name) => textOf(env, name) === undefined)) {
    return undefined;
  }
  const numbers = rankNumbers(env, openMpiNames);
  return {
    kind: 'rank',
    launcher: 'open-mpi',
    ...numbers,
    nodeRank: undefined,
    ...mpiAddress(env, numbers),
    jobId: jobIdOf(env, 'PMIX_NAMESPACE'),
    restartCount: undefined,
    maxRestarts: undefined,
  };
}

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

/**
 * Returns the address of rank 0. MPI's launchers do not tell it, and mpirun may run on another host than rank 0. It is
 * known only if all ranks are on one host. Otherwise the user sets MASTER_ADDR and MASTER_PORT, or the ranks use MPI
 * itself.
 */
function mpiAddress(env: NodeJS.ProcessEnv, numbers: RankNumbers): LaunchAddress {
  const isOneHost = numbers.localWorldSize === numbers.worldSize;
  return {
    address: hostOf(env, 'MASTER_ADDR') ?? (isOneHost ? '127.0.0.1' : undefined),
    port: portOf(env, 'MASTER_PORT'),
  };
}
