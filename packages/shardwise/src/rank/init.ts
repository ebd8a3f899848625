import { canRecordCalls, limitCalls } from '@shardwise/collectives';
import { LineMesh, setRank } from '@shardwise/core';
import {
  type Backend,
  checkOptions,
  option,
  type OptionRules,
  type ProcessGroup,
} from '@shardwise/core/extend';
import { recordFlight } from '../blame/record-flight.ts';
import { createRankContext } from './create-rank-context.ts';
import { findHost } from './find-host.ts';
import type { RankContext } from './rank-context.ts';
import { rankDevice } from './rank-device.ts';

/** Options of `init`. */
export interface InitOptions {
  /**
   * All ranks, where the script connects them itself: `createGroup(transport)`, or a vendor's. Under
   * `shardwise run` it has the run's ranks. `context.close()` closes it. Default: a group by the transport that
   * suits how this rank was started.
   */
  readonly group?: ProcessGroup;
  /**
   * Time limit of the group's calls, and of those of its parts, that say no other: after it a call rejects with
   * CollectiveTimeoutError naming the ranks that have not come. Default: the group's, else 600,000.
   */
  readonly timeoutMs?: number;
  /** Computes this rank's tensors. Default: what `--device` names, else `cpu()`, over the memory that the ranks share. */
  readonly device?: Backend;
}

const initRules: OptionRules<InitOptions> = {
  device: option.object('a backend, as await cpu()'),
  group: option.object('a process group'),
  timeoutMs: {
    fits: option.positive.fits,
    is: 'a number of milliseconds above 0 (Infinity: without limit)',
  },
};

/** The mesh axis of a world whose script makes no mesh of its own. */
const AXIS = 'dp';

const STACK_FRAMES = 50;

/**
 * Makes this thread a rank: under `shardwise run` one of its world; in a process that torchrun,
 * mpirun or srun has started, or that has their variables, the rank that they say; else
 * (`node train.ts`) a world of one. Without our launcher rank 0 prints its metrics as plain lines.
 * Tensors are computed on the rank's device from now on.
 */
export async function init(options: InitOptions = {}): Promise<RankContext> {
  checkOptions('init', options, initRules);
  // Frames of the library stand between an error and the line of the script.
  Error.stackTraceLimit = Math.max(Error.stackTraceLimit, STACK_FRAMES);
  const host = await findHost(options.group);
  const joined = await host.join();
  const { group, arena } = joined;
  if (options.timeoutMs !== undefined) limitCalls(group, options.timeoutMs);
  let runDirectory: string | undefined;
  // Before its first call, which may be the one that asks for the directory.
  if (host.isRecorded && canRecordCalls(group))
    recordFlight(group, () => runDirectory, process.env);
  const surroundings = await host.enter(joined);
  runDirectory = surroundings.runDirectory;
  const device = await rankDevice(options.device, arena, process.env);
  const mesh = new LineMesh(AXIS, group);
  setRank({ device, mesh });
  const { rank, localRank, transport } = host;
  return createRankContext({
    rank,
    localRank,
    transport,
    ...surroundings,
    group,
    device,
    mesh,
    memoryBytes: () => device.usage?.().bytesInUse,
  });
}
