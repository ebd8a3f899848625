export interface RankEnvironmentOptions {
  readonly rank: number;
  readonly worldSize: number;
  readonly runId: string;
}

/** The variables that torchrun sets, for one host without restarts; other variables pass through. */
export function rankEnvironment(
  inherited: NodeJS.ProcessEnv,
  { rank, worldSize, runId }: RankEnvironmentOptions,
): NodeJS.ProcessEnv {
  return {
    // Nothing listens there: the ranks are threads. Scripts that print or derive from it get a value.
    MASTER_ADDR: '127.0.0.1',
    MASTER_PORT: '29500',
    ...inherited,
    RANK: String(rank),
    WORLD_SIZE: String(worldSize),
    LOCAL_RANK: String(rank),
    LOCAL_WORLD_SIZE: String(worldSize),
    GROUP_RANK: '0',
    ROLE_RANK: String(rank),
    ROLE_WORLD_SIZE: String(worldSize),
    TORCHELASTIC_RESTART_COUNT: '0',
    TORCHELASTIC_MAX_RESTARTS: '0',
    TORCHELASTIC_RUN_ID: runId,
  };
}
