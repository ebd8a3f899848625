import { once } from 'node:events';
import { Worker } from 'node:worker_threads';
import { createThreadsWorld } from '@shardwise/collectives';
import { endWithParent } from '@shardwise/collectives/node';
import { keepGenericWasmWrappers, rankResourceLimits } from '@shardwise/core/node';
import type { GroupPlace } from '../enter-group.ts';
import type { ServeOptions } from '../serve-options.ts';
import { type Serving, startServing } from '../start-serving.ts';
import type { FromReplica, ToReplica } from './replica-message.ts';
import type { ReplicaThreadData } from './replica-thread.ts';

// This is the process of a replica. `shardwise serve --nproc` starts it, and it ends with that process.

const send = (message: FromReplica): void => void process.send?.(message);

try {
  endWithParent();
  keepGenericWasmWrappers();
  process.on('disconnect', () => process.exit(1));
  const [first]: readonly ToReplica[] = await once(process, 'message');
  if (first?.kind === 'serve') {
    const { options } = first;
    const serving = await startServing(options, startGroup(options));
    process.on('message', ({ kind }: ToReplica) => {
      if (kind === 'stop') void stop(serving);
    });
    send({ kind: 'listening', url: serving.server.url, summary: serving.summary });
  }
} catch (error) {
  send({ kind: 'failed', reason: error instanceof Error ? error.message : String(error) });
  process.exitCode = 1;
  process.disconnect();
}

/**
 * Starts the other ranks over which the replica is divided, as threads. Returns the place of this one, which is the first.
 * Null: it has the whole model. If a rank is lost, so is the whole process.
 */
function startGroup(options: ServeOptions): GroupPlace | null {
  const size = options.tensorParallelSize;
  if (size === 1) return null;
  const world = createThreadsWorld({ size });
  const extension = import.meta.url.endsWith('.ts') ? 'ts' : 'js';
  for (let rank = 1; rank < size; rank++) {
    const workerData: ReplicaThreadData = { options, place: { world, rank } };
    const url = new URL(`./replica-thread.${extension}`, import.meta.url);
    const worker = new Worker(url, { workerData, resourceLimits: rankResourceLimits });
    worker.on('error', (error) => {
      console.error(error);
      process.exit(1);
    });
  }
  return { world, rank: 0 };
}

/** Nobody asks any more: what is still under way was given up. */
async function stop(serving: Serving): Promise<void> {
  await serving.server.close(0);
  await serving.dispose();
  process.exit(0);
}
