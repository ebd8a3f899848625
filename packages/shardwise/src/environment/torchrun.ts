import type { RankLaunch } from './launch.ts';
import { rankNumbers, type RankNames } from './rank-numbers.ts';
import {
  hostOf,
  integerOf,
  jobIdOf,
  MAX_RESTARTS,
  MAX_WORLD_SIZE,
  missingError,
  portOf,
  textOf,
} from './variables.ts';

/** The variables of a rank that torchrun or shardwise has started. PyTorch's `env://` reads the same ones. */
export const torchrunNames: RankNames = {
  rank: 'RANK',
  worldSize: 'WORLD_SIZE',
  localRank: 'LOCAL_RANK',
  localWorldSize: 'LOCAL_WORLD_SIZE',
};

/**
 * Reads the variables of torchrun. Returns undefined unless both RANK and WORLD_SIZE are set, because a single one is
 * often part of a job file whose launcher sets the rest. Without LOCAL_RANK and LOCAL_WORLD_SIZE each rank counts as
 * alone on its host, which is how the operators of Kubernetes start ranks.
 */
export function torchrunLaunch(env: NodeJS.ProcessEnv): RankLaunch | undefined {
  const { rank, worldSize, localRank, localWorldSize } = torchrunNames;
  if (textOf(env, rank) === undefined || textOf(env, worldSize) === undefined) return undefined;
  const isAlone = textOf(env, localRank) === undefined && textOf(env, localWorldSize) === undefined;
  const numbers = rankNumbers(
    isAlone ? { ...env, [localRank]: '0', [localWorldSize]: '1' } : env,
    torchrunNames,
  );
  const address = hostOf(env, 'MASTER_ADDR');
  const port = portOf(env, 'MASTER_PORT');
  if (numbers.worldSize > 1 && (address === undefined || port === undefined)) {
    const missing = [
      ...(address === undefined ? ['MASTER_ADDR'] : []),
      ...(port === undefined ? ['MASTER_PORT'] : []),
    ];
    throw missingError(rank, missing);
  }
  return {
    kind: 'rank',
    launcher: 'torchrun',
    ...numbers,
    nodeRank: integerOf(env, 'GROUP_RANK', { min: 0, max: MAX_WORLD_SIZE }),
    address,
    port,
    jobId: jobIdOf(env, 'TORCHELASTIC_RUN_ID'),
    restartCount: integerOf(env, 'TORCHELASTIC_RESTART_COUNT', { min: 0, max: MAX_RESTARTS }),
    maxRestarts: integerOf(env, 'TORCHELASTIC_MAX_RESTARTS', { min: 0, max: MAX_RESTARTS }),
  };
}
