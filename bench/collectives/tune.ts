import { fork } from 'node:child_process';
import { once } from 'node:events';
import { writeFile } from 'node:fs/promises';
import { cpus } from 'node:os';
import {
  algorithmTableOf,
  startStoreServer,
  type AlgorithmMeasurement,
} from '@shardwise/collectives/node';
import type { BenchResult } from '../bench.ts';
import { formatBytes } from './format.ts';
import type { CollectivesOptions } from './options.ts';

/** The data that a rank gets. */
export interface TuneTask {
  readonly rank: number;
  readonly size: number;
  readonly port: number;
  readonly secret: string;
  readonly sizesBytes: readonly number[];
  readonly rounds: number;
  readonly hosts: readonly number[];
}

const SECRET = 'the secret of a benchmark';

/**
 * Measures every algorithm over tcp. All ranks are on one host and, if there are four or more, also on two simulated
 * hosts. Writes the table by which createGroup chooses an algorithm to `path`, as JSON.
 */
export async function tune(path: string, options: CollectivesOptions): Promise<BenchResult> {
  const measurements: AlgorithmMeasurement[] = [];
  for (const size of options.worlds) {
    const oneHost = Array.from({ length: size }, () => 0);
    const twoHosts = oneHost.map((_, rank) => Math.floor((2 * rank) / size));
    for (const hosts of size >= 4 ? [oneHost, twoHosts] : [oneHost]) {
      measurements.push(...(await measureOn(hosts, options)));
    }
  }
  const table = algorithmTableOf(measurements, {
    madeBy: 'npm run -s bench -- collectives --tune',
    machine: `${cpus().length} cores (${cpus()[0]?.model ?? 'unknown'}), Node ${process.version}`,
  });
  await writeFile(path, `${JSON.stringify(table, undefined, 2)}\n`);
  return {
    rows: measurements.map(({ operation, algorithm, hosts, ranks, bytes, microseconds }) => [
      `${operation} ${bytes === 0 ? '' : formatBytes(bytes)} ${ranks} on ${hosts}`,
      `${algorithm} ${microseconds.toFixed(1)} us`,
    ]),
    record: { table, measurements },
  };
}

/** Returns what rank 0 measured. `hosts` contains the number of each rank's host. */
async function measureOn(
  hosts: readonly number[],
  { sizes, rounds }: CollectivesOptions,
): Promise<readonly AlgorithmMeasurement[]> {
  const server = await startStoreServer({ secret: SECRET });
  const size = hosts.length;
  try {
    const ranks = hosts.map(async (_, rank) => {
      const child = fork(new URL('./tune-rank.ts', import.meta.url), {
        execArgv: ['--conditions=@shardwise/source'],
      });
      const exited = once(child, 'exit');
      const answered = once(child, 'message');
      const ended = exited.then(([code]) => {
        throw new Error(`Rank ${rank} ended with ${String(code)} before it answered`);
      });
      const sizesBytes = sizes.filter((bytes) => bytes <= 16 << 20);
      const task: TuneTask = {
        rank,
        size,
        port: server.port,
        secret: SECRET,
        sizesBytes,
        rounds,
        hosts,
      };
      child.send(task);
      const [measured]: (readonly AlgorithmMeasurement[])[] = await Promise.race([answered, ended]);
      await exited;
      return measured ?? [];
    });
    const [first] = await Promise.all(ranks);
    return first ?? [];
  } finally {
    server.close();
  }
}
