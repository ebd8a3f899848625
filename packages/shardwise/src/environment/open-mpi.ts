import type { RankLaunch } from './launch.ts';
import { mpiAddress } from './mpi-address.ts';
import { rankNumbers, type RankNames } from './rank-numbers.ts';
import { jobIdOf, textOf } from './variables.ts';

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
