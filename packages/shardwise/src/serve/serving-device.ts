import { availableParallelism } from 'node:os';
import { cpu } from '@shardwise/backend-cpu';
import { type Backend, ConfigError } from '@shardwise/core/spec';
import { deviceVariable } from '../environment/device-name.ts';
import { rankDevice } from '../rank/rank-device.ts';
import type { SharedMemoryRank } from '../rank/join/joined-rank.ts';
import type { ServeOptions } from './serve-options.ts';

/**
 * The device of a server: the one of the options, or of the environment. On the CPU, the bits of a text do not depend on
 * the texts beside it. `arena` is this rank's part of memory that ranks share. Throws ConfigError for threads of another device, and what rankDevice throws.
 */
export async function servingDevice(
  { device, threads }: Pick<ServeOptions, 'device' | 'threads'>,
  variables: NodeJS.ProcessEnv,
  arena?: SharedMemoryRank['arena'],
): Promise<Backend> {
  const environment = device === undefined ? variables : { ...variables, [deviceVariable]: device };
  const isCpu = (environment[deviceVariable] ?? 'cpu') === 'cpu';
  if (!isCpu && threads !== undefined) throw noThreads(threads, environment[deviceVariable]);
  const count = threads ?? availableParallelism();
  const own = isCpu ? await cpu({ ...arena, threads: count, batchInvariant: true }) : undefined;
  return rankDevice(own, arena, environment);
}

function noThreads(threads: number, device: string | undefined): ConfigError {
  return new ConfigError(
    {
      asked: `--threads ${threads}`,
      found: `the device ${device ?? ''}, which has no threads`,
      todo: 'Leave --threads out, or use --device cpu',
    },
    { threads },
  );
}
