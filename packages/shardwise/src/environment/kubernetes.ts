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

const INDEX = 'JOB_COMPLETION_INDEX';

/**
 * Detects a pod of an Indexed Job, alone or in a JobSet. Kubernetes tells a pod only its index. So the pod's
 * specification must set NNODES (or WORLD_SIZE, as the number of pods) and MASTER_ADDR, for instance `job-0.service`.
 * Without them, the pods of a job are independent.
 */
export function kubernetesLaunch(env: NodeJS.ProcessEnv): NodeLaunch | undefined {
  const nodeRank = integerOf(env, INDEX, { min: 0, max: MAX_WORLD_SIZE });
  if (nodeRank === undefined) return undefined;
  const name = textOf(env, 'NNODES') === undefined ? 'WORLD_SIZE' : 'NNODES';
  const nodes = integerOf(env, name, { min: 1, max: MAX_WORLD_SIZE });
  const address = hostOf(env, 'MASTER_ADDR');
  if (nodes === undefined) {
    if (address !== undefined) throw missingError('MASTER_ADDR', ['NNODES']);
    return undefined;
  }
  if (nodeRank >= nodes) {
    const rule = `the pods are 0 to ${nodes - 1}`;
    throw conflictError({ name: INDEX, value: nodeRank }, { name, value: nodes }, rule);
  }
  return {
    kind: 'node',
    launcher: 'kubernetes',
    nodeRank,
    minNodes: nodes,
    maxNodes: nodes,
    ranksPerNode: undefined,
    address,
    port: portOf(env, 'MASTER_PORT'),
    jobId: undefined,
    restartCount: undefined,
    maxRestarts: undefined,
  };
}

const LWS_INDEX = 'LWS_WORKER_INDEX';
const LWS_SIZE = 'LWS_GROUP_SIZE';

/** Detects a pod of a Kubernetes LeaderWorkerSet, which sets all three variables since its version 0.6. */
export function leaderWorkerSetLaunch(env: NodeJS.ProcessEnv): NodeLaunch | undefined {
  if (textOf(env, LWS_INDEX) === undefined && textOf(env, LWS_SIZE) === undefined) return undefined;
  const nodeRank = integerOf(env, LWS_INDEX, { min: 0, max: MAX_WORLD_SIZE });
  const nodes = integerOf(env, LWS_SIZE, { min: 1, max: MAX_WORLD_SIZE });
  if (nodes === undefined) throw missingError(LWS_INDEX, [LWS_SIZE]);
  if (nodeRank === undefined) throw missingError(LWS_SIZE, [LWS_INDEX]);
  if (nodeRank >= nodes) {
    const rule = `the workers of a group are 0 to ${nodes - 1}`;
    throw conflictError(
      { name: LWS_INDEX, value: nodeRank },
      { name: LWS_SIZE, value: nodes },
      rule,
    );
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
