import type { RankForm } from './transports/transport-choice.ts';

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
  /** The address at which the job's store listens; undefined where there is no store. */
  readonly master: { readonly host: string; readonly port: number } | undefined;
}

/**
 * Set for all that a launcher starts: the id of its process for ranks that are processes, so that
 * only its own children are ranks, not what those start; `threads` for ranks that are threads.
 */
export const launcherVariable = 'SHARDWISE_LAUNCHER';

/** The job's secret is for launchers; ranks are told what they need in another way. */
export const secretVariable = 'SHARDWISE_SECRET';

/** The variables that torchrun sets; others pass through. */
export function rankEnvironment(
  inherited: NodeJS.ProcessEnv,
  { form, rank, worldSize, localRank, localWorldSize, nodeRank, master, ...run }: RankVariables,
): NodeJS.ProcessEnv {
  const { [secretVariable]: _, ...others } = inherited;
  return {
    // Where nothing listens, scripts that print or derive from it get a value all the same.
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
