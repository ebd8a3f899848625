import type { NodeLaunch } from './launch.ts';
import {
  conflictError,
  hostOf,
  integerOf,
  isHost,
  jobIdOf,
  MAX_RESTARTS,
  MAX_WORLD_SIZE,
  missingError,
  portOf,
  textOf,
  valueError,
} from './variables.ts';

/** The default of torchrun. */
const DEFAULT_PORT = 29_500;
/** Words that make torchrun start one rank for each device of a host. */
const DEVICES: ReadonlySet<string> = new Set(['auto', 'cpu', 'gpu', 'cuda', 'xpu', 'npu', 'mps']);

/**
 * Detects a pod of Kubeflow's Trainer, or of its older Training Operator. They set the options of torchrun as variables
 * named PET_*, which are translated to those of `shardwise run`.
 */
export function kubeflowLaunch(env: NodeJS.ProcessEnv): NodeLaunch | undefined {
  const range = nodesOf(env);
  const nodeRank = integerOf(env, 'PET_NODE_RANK', { min: 0, max: MAX_WORLD_SIZE });
  if (range === undefined) {
    if (nodeRank !== undefined) throw missingError('PET_NODE_RANK', ['PET_NNODES']);
    return undefined;
  }
  if (nodeRank !== undefined && nodeRank >= range.maxNodes) {
    throw conflictError(
      { name: 'PET_NODE_RANK', value: nodeRank },
      { name: 'PET_NNODES', value: range.maxNodes },
      `the nodes are 0 to ${range.maxNodes - 1}`,
    );
  }
  const endpoint = endpointOf(env);
  const address = hostOf(env, 'PET_MASTER_ADDR') ?? endpoint?.address;
  const port = portOf(env, 'PET_MASTER_PORT') ?? endpoint?.port;
  return {
    kind: 'node',
    launcher: 'kubeflow',
    nodeRank: nodeRank ?? (range.maxNodes === 1 ? 0 : undefined),
    ...range,
    ranksPerNode: ranksPerNodeOf(env),
    address,
    port: port ?? (address === undefined ? undefined : DEFAULT_PORT),
    jobId: jobIdOf(env, 'PET_RDZV_ID'),
    restartCount: undefined,
    maxRestarts: integerOf(env, 'PET_MAX_RESTARTS', { min: 0, max: MAX_RESTARTS }),
  };
}

/** Reads `2`, or `1:4` if nodes may come and go. */
function nodesOf(
  env: NodeJS.ProcessEnv,
): { readonly minNodes: number; readonly maxNodes: number } | undefined {
  const text = textOf(env, 'PET_NNODES');
  if (text === undefined) return undefined;
  const [, least, most] = /^(\d{1,7})(?::(\d{1,7}))?$/.exec(text) ?? [];
  const minNodes = Number(least);
  const maxNodes = Number(most ?? least);
  if (minNodes >= 1 && maxNodes >= minNodes && maxNodes <= MAX_WORLD_SIZE) {
    return { minNodes, maxNodes };
  }
  throw valueError('PET_NNODES', text, 'a number of nodes such as 2, or a range such as 1:4');
}

function ranksPerNodeOf(env: NodeJS.ProcessEnv): number | undefined {
  const name = 'PET_NPROC_PER_NODE';
  if (DEVICES.has(textOf(env, name) ?? '')) return undefined;
  return integerOf(env, name, { min: 1, max: MAX_WORLD_SIZE });
}

/** Reads `host:port`, which elastic jobs have instead of PET_MASTER_ADDR. */
function endpointOf(
  env: NodeJS.ProcessEnv,
): { readonly address: string; readonly port: number | undefined } | undefined {
  const text = textOf(env, 'PET_RDZV_ENDPOINT');
  if (text === undefined) return undefined;
  const [, address = '', digits] = /^(.*?)(?::(\d{1,5}))?$/.exec(text) ?? [];
  const port = digits === undefined ? undefined : Number(digits);
  const isPort = port === undefined || (port >= 1 && port <= 65_535);
  if (isPort && !address.includes(':') && isHost(address)) return { address, port };
  throw valueError('PET_RDZV_ENDPOINT', text, 'a host and a port such as leader:29500');
}
