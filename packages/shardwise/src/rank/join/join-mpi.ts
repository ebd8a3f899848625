import { mpiGroup } from '@shardwise/collectives/node';
import { ConfigError } from '@shardwise/core/extend';
import type { JoinedRank } from './joined-rank.ts';
import type { TcpPlace } from './join-tcp.ts';

/** Joins the world of MPI. Throws ConfigError if MPI and the environment disagree on the rank or the size. */
export async function joinMpi({ rank, size }: TcpPlace): Promise<JoinedRank> {
  const group = await mpiGroup();
  if (group.rank !== rank || group.size !== size) {
    throw new ConfigError(
      {
        asked: `Joining as rank ${rank} of ${size} by MPI`,
        found: `for MPI this is rank ${group.rank} of ${group.size}`,
        todo: 'Start the ranks with the mpirun of the MPI library that is loaded',
      },
      { rank, size, mpiRank: group.rank, mpiSize: group.size },
    );
  }
  return { group, arena: undefined };
}
