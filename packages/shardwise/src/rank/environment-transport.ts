import { mpiAvailability } from '@shardwise/collectives/node';
import type { RankLaunch } from '../environment/launch.ts';
import type { TransportChoice } from '../launcher/transports/transport-choice.ts';

/**
 * How ranks reach each other that another launcher has started: by MPI where it is a launcher of MPI
 * and a library is there, else by TCP.
 */
export function environmentTransport(
  { launcher, worldSize }: RankLaunch,
  environment: NodeJS.ProcessEnv,
): TransportChoice<'mpi' | 'tcp'> {
  const ranks = `${worldSize} ranks that ${launcher} started`;
  const isOfMpi = launcher === 'open-mpi' || launcher === 'hydra';
  // Without one of these, srun has not wired its tasks for MPI: each would be alone.
  const isWired = ['PMI_RANK', 'PMIX_RANK'].some((name) => environment[name] !== undefined);
  if (!isOfMpi && !(launcher === 'slurm' && isWired)) return { kind: 'tcp', reason: ranks };
  const found = mpiAvailability();
  return found.available
    ? { kind: 'mpi', reason: `${ranks}, ${found.library}` }
    : { kind: 'tcp', reason: `${ranks}, no MPI: ${found.reason}` };
}
