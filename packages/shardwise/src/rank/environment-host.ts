import { mpiAvailability, mpiGroup } from '@shardwise/collectives/node';
import { ConfigError } from '@shardwise/core/extend';
import type { RankLaunch } from '../environment/launch.ts';
import { joinByEnvironment } from './join/join-by-environment.ts';
import type { RankHost } from './rank-host.ts';
import { withoutLauncher } from './without-launcher.ts';
import type { JoinedRank } from './join/joined-rank.ts';
import type { TcpPlace } from './join/join-tcp.ts';
import type { TransportChoice } from '../launcher/transports/transport-choice.ts';

/** Returns the host of a rank that torchrun, mpirun, srun or an operator has started. Rank 0 prints its metrics. */
export function environmentHost(launch: RankLaunch, environment: NodeJS.ProcessEnv): RankHost {
  const { rank, worldSize: size, localRank } = launch;
  const transport = environmentTransport(launch, environment);
  return {
    rank,
    localRank,
    transport,
    isRecorded: true,
    join: () =>
      transport.kind === 'mpi' ? joinMpi({ rank, size }) : joinByEnvironment(launch, environment),
    enter: ({ group }) => withoutLauncher(group, transport),
  };
}

/** Joins the world of MPI. Throws ConfigError if MPI and the environment disagree on the rank or the size. */
async function joinMpi({ rank, size }: TcpPlace): Promise<JoinedRank> {
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

/**
 * Chooses how ranks that another launcher has started reach each other. It is MPI if that launcher belongs to MPI and a
 * library is available, and otherwise TCP.
 */
export function environmentTransport(
  { launcher, worldSize }: RankLaunch,
  environment: NodeJS.ProcessEnv,
): TransportChoice<'mpi' | 'tcp'> {
  const ranks = `${worldSize} ranks that ${launcher} started`;
  const isOfMpi = launcher === 'open-mpi' || launcher === 'hydra';
  // Without one of these variables, srun has not connected its tasks for MPI, and each task would be a world of its
  // own.
  const isWired = ['PMI_RANK', 'PMIX_RANK'].some((name) => environment[name] !== undefined);
  if (!isOfMpi && !(launcher === 'slurm' && isWired)) return { kind: 'tcp', reason: ranks };
  const found = mpiAvailability();
  return found.available
    ? { kind: 'mpi', reason: `${ranks}, ${found.library}` }
    : { kind: 'tcp', reason: `${ranks}, no MPI: ${found.reason}` };
}
