import { mpiAvailability } from '@shardwise/collectives/node';
import type { RankLaunch } from '../environment/launch.ts';
import type { TransportChoice } from '../launcher/transports/transport-choice.ts';

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
