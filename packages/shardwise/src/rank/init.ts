import { workerData } from 'node:worker_threads';
import { cpu } from '@shardwise/backend-cpu';
import { joinThreadsWorld, type ThreadsWorld } from '@shardwise/collectives';
import { ConfigError, LineMesh, setRank, type Backend } from '@shardwise/core';
import { rankDataMarker, type RankData } from '../launcher/rank-data.ts';
import { recordFlight } from '../blame/record-flight.ts';
import { createRankContext } from './create-rank-context.ts';
import { launchedHost } from './launched-host.ts';
import { loneHost } from './lone-host.ts';
import type { RankContext } from './rank-context.ts';

export interface InitOptions {
  /** Computes this rank's tensors. Default: `cpu()`, over the memory that the ranks share. */
  readonly device?: Backend;
}

/** The mesh axis of a world whose script makes no mesh of its own. */
const AXIS = 'dp';

/**
 * Makes this thread a rank: under `shardwise run` one of its world, else (`node train.ts`) a world
 * of one, whose metrics are printed as plain lines. Tensors are computed on the rank's device from
 * now on.
 */
export async function init(options: InitOptions = {}): Promise<RankContext> {
  const data: unknown = workerData;
  const host = isRankData(data) ? launchedHost(data) : loneHost();
  const { world, rank } = host;
  const region = world.regions[rank];
  if (region === undefined) {
    throw new ConfigError(
      {
        asked: `Rank ${rank} joining its world`,
        found: `a world of ${world.size} ranks`,
        todo: 'Use one version of shardwise for the launcher and the script',
      },
      { rank, size: world.size },
    );
  }
  const group = joinThreadsWorld(world, rank);
  if (isRankData(data)) recordFlight(group, data.runDirectory, process.env);
  const device = options.device ?? (await cpu({ memory: world.memory, ...region }));
  const mesh = new LineMesh(AXIS, group);
  setRank({ device, mesh });
  return createRankContext({ ...host, group, device, mesh, memoryBytes: () => memoryOf(device) });
}

function isRankData(data: unknown): data is RankData<ThreadsWorld> {
  return (
    typeof data === 'object' && data !== null && 'marker' in data && data.marker === rankDataMarker
  );
}

/** Devices that count their memory have a method that the interface does not ask for. */
function memoryOf(device: Backend): number | undefined {
  return countsMemory(device) ? device.usage().bytesInUse : undefined;
}

function countsMemory(
  device: Backend,
): device is Backend & { usage(): { readonly bytesInUse: number } } {
  return 'usage' in device && typeof device.usage === 'function';
}
