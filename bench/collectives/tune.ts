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

/** What a rank is told. */
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
 * Times every algorithm over tcp, with the ranks on one host and, where they are four or more, as
 * if on two, and writes the table that createGroup chooses by to `path`, as JSON.
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

/** `hosts`: the number of each rank's host. What rank 0 saw. */
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
