import type { NodeLaunch } from './launch.ts';
import {
  conflictError,
  hostOf,
  integerOf,
  MAX_WORLD_SIZE,
  missingError,
  portOf,
  textOf,
} from './variables.ts';

const INDEX = 'LWS_WORKER_INDEX';
const SIZE = 'LWS_GROUP_SIZE';

/** Detects a pod of a Kubernetes LeaderWorkerSet, which sets all three variables since its version 0.6. */
export function leaderWorkerSetLaunch(env: NodeJS.ProcessEnv): NodeLaunch | undefined {
  if (textOf(env, INDEX) === undefined && textOf(env, SIZE) === undefined) return undefined;
  const nodeRank = integerOf(env, INDEX, { min: 0, max: MAX_WORLD_SIZE });
  const nodes = integerOf(env, SIZE, { min: 1, max: MAX_WORLD_SIZE });
  if (nodes === undefined) throw missingError(INDEX, [SIZE]);
  if (nodeRank === undefined) throw missingError(SIZE, [INDEX]);
  if (nodeRank >= nodes) {
    const rule = `the workers of a group are 0 to ${nodes - 1}`;
    throw conflictError({ name: INDEX, value: nodeRank }, { name: SIZE, value: nodes }, rule);
  }
  return {
    kind: 'node',
    launcher: 'leader-worker-set',
    nodeRank,
    minNodes: nodes,
    maxNodes: nodes,
    ranksPerNode: undefined,
    address: hostOf(env, 'MASTER_ADDR') ?? hostOf(env, 'LWS_LEADER_ADDRESS'),
    port: portOf(env, 'MASTER_PORT'),
    jobId: undefined,
    restartCount: undefined,
    maxRestarts: undefined,
  };
}
