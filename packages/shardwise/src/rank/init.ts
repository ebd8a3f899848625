import { findHost } from './find-host.ts';
import { checkInit, type InitOptions } from './init-options.ts';
import type { RankContext } from './rank-context.ts';
import { startRank } from './start-rank.ts';

/**
 * Makes this thread a rank. Under `shardwise run` it is a rank of the run. In a process that torchrun, mpirun
 * or srun has started, or that has their variables, it is the rank that these say. Otherwise (`node train.ts`)
 * it is the only rank. Without the launcher of this library, rank 0 prints its metrics as plain lines. From now
 * on, tensors are computed on the rank's device.
 */
export async function init(options: InitOptions = {}): Promise<RankContext> {
  checkInit(options);
  const host = await findHost(options.group);
  const { context } = await startRank(host, await host.join(), options);
  return context;
}
