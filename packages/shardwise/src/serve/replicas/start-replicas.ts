import { availableParallelism } from 'node:os';
import { ConfigError } from '@shardwise/core/spec';
import { listen, replicaApp } from '@shardwise/serve/node';
import { apiKeysOf } from '../api-keys.ts';
import { cannotListen } from '../cannot-listen.ts';
import { requireWholeBlocks } from '../require-whole-blocks.ts';
import type { ServeOptions } from '../serve-options.ts';
import type { Serving } from '../start-serving.ts';
import { ReplicaProcesses } from './replica-processes.ts';

/**
 * Serves a model by several ranks behind one address. Each replica has the whole model, on a rank or divided over those of a
 * group. Throws ConfigError for ranks that groups cannot share out, for replicas that do not start, for an address that
 * cannot be used, and for options that contradict each other.
 */
export async function startReplicas(options: ServeOptions): Promise<Serving> {
  const { nproc, tensorParallelSize, host, port, onRankFailure } = options;
  if (nproc % tensorParallelSize !== 0) throw unevenGroups(nproc, tensorParallelSize);
  const count = nproc / tensorParallelSize;
  const apiKeys = apiKeysOf(options, process.env);
  requireWholeBlocks(options);
  const cores = Math.max(1, Math.floor(availableParallelism() / nproc));
  const isCpu = (options.device ?? 'cpu') === 'cpu';
  const own: ServeOptions = {
    ...options,
    host: '127.0.0.1',
    port: 0,
    apiKeys,
    withoutApiKey: apiKeys.length === 0,
    nproc: tensorParallelSize,
    // The replicas share the cores of the machine.
    threads: options.threads ?? (isCpu ? cores : undefined),
  };
  const processes = await ReplicaProcesses.start(count, own, (line) => console.error(line));
  const { replicas, summary } = processes;
  const app = replicaApp({ replicas, apiKeys, onRankFailure });
  try {
    const server = await listen(app, { host, port }).catch((cause: unknown) => {
      throw cannotListen(host, port, cause);
    });
    const parts = tensorParallelSize > 1 ? ` divided over ${tensorParallelSize} ranks` : '';
    const replicaCount = count === 1 ? '1 replica' : `${count} replicas`;
    return {
      server,
      summary: `${summary.replace(/at http:\S+\/v1/, `at ${server.url}/v1`)}; ${replicaCount}${parts}`,
      get open() {
        return app.open;
      },
      dispose: () => processes.stop(),
    };
  } catch (error) {
    await processes.stop();
    throw error;
  }
}

function unevenGroups(nproc: number, tensorParallelSize: number): ConfigError {
  return new ConfigError(
    {
      asked: `--nproc ${nproc} with --tensor-parallel-size ${tensorParallelSize}`,
      found: 'ranks that do not make whole groups',
      todo: `Give a multiple of ${tensorParallelSize} as --nproc`,
    },
    { nproc, tensorParallelSize },
  );
}
