import { secretVariable } from '../../rendezvous/read-secret.ts';
import type { RankForm } from '../transports/transport-choice.ts';

export interface RankVariables {
  readonly form: RankForm;
  readonly rank: number;
  readonly worldSize: number;
  readonly localRank: number;
  readonly localWorldSize: number;
  readonly nodeRank: number;
  readonly restarts: number;
  readonly maxRestarts: number;
  readonly runId: string;
  /** The address at which the job's store listens. Undefined if there is no store. */
  readonly master: { readonly host: string; readonly port: number } | undefined;
}

/**
 * A variable that is set for everything that a launcher starts. Its value is the id of the launcher's process if ranks
 * are processes, so that only the launcher's own children are ranks, and not the processes that these start. It is
 * `threads` if ranks are threads.
 */
export const launcherVariable = 'SHARDWISE_LAUNCHER';

/** Returns the environment of a rank, with the variables that torchrun sets. Other variables pass through. */
export function rankEnvironment(
  inherited: NodeJS.ProcessEnv,
  { form, rank, worldSize, localRank, localWorldSize, nodeRank, master, ...run }: RankVariables,
): NodeJS.ProcessEnv {
  const { [secretVariable]: _, ...others } = inherited;
  return {
    // If no store listens, scripts that print or derive something from these variables still get a value.
    MASTER_ADDR: '127.0.0.1',
    MASTER_PORT: '29500',
    ...others,
    ...(master && { MASTER_ADDR: master.host, MASTER_PORT: String(master.port) }),
    [launcherVariable]: form === 'processes' ? String(process.pid) : 'threads',
    RANK: String(rank),
    WORLD_SIZE: String(worldSize),
    LOCAL_RANK: String(localRank),
    LOCAL_WORLD_SIZE: String(localWorldSize),
    GROUP_RANK: String(nodeRank),
    ROLE_RANK: String(rank),
    ROLE_WORLD_SIZE: String(worldSize),
    TORCHELASTIC_RESTART_COUNT: String(run.restarts),
    TORCHELASTIC_MAX_RESTARTS: String(run.maxRestarts),
    TORCHELASTIC_RUN_ID: run.runId,
  };
}
