import { writeFile } from 'node:fs/promises';
import { hostname, totalmem } from 'node:os';
import { fileURLToPath } from 'node:url';
import { ConfigError } from '@shardwise/core/spec';
import {
  type ClusterDescription,
  clusterFromTrace,
  type ReachedRates,
  readCluster,
} from '@shardwise/planner';
import { openTrace } from '@shardwise/planner/node';
import { runScript } from '../doctor/links/run-script.ts';
import { displayPath } from '../text/display-path.ts';
import { formatBytes, formatCount } from '../text/format.ts';
import { MEASURED_FILE, parseMeasuredRanks } from './measured-ranks.ts';

/** The options of `shardwise measure`. */
export interface MeasureOptions {
  /** The file to write. */
  readonly file: string;
  /** The ranks of this host between which links are measured. */
  readonly ranks: number;
  /** The file of the command. */
  readonly main: string;
  /** The trace of a run from which the constants are taken. Undefined: they are measured now. */
  readonly trace: string | undefined;
}

/** Runs `shardwise measure`: describes this machine as a cluster, in a file that `shardwise plan` reads. */
export async function measureCommand(options: MeasureOptions): Promise<void> {
  const { file, trace } = options;
  const cluster =
    trace === undefined
      ? await measuredCluster(options)
      : clusterFromTrace(await openTrace(trace), { name: hostname(), memoryBytes: totalmem() });
  const { device, links } = cluster;
  await writeFile(file, `${JSON.stringify(cluster, undefined, 2)}\n`);
  process.stdout.write(
    [
      `products: ${formatCount(device.flops.f32)}FLOP/s`,
      `memory: ${formatBytes(device.memoryBytesPerSecond)}/s`,
      `updates: ${formatBytes(device.updateBytesPerSecond ?? device.memoryBytesPerSecond)}/s`,
      `call of an operation: ${(device.launchSeconds * 1e6).toFixed(0)} µs`,
      `link: ${formatBytes(links.inside.bytesPerSecond)}/s, ${(links.inside.latencySeconds * 1e6).toFixed(0)} µs`,
      `Cluster: ${displayPath(file)}`,
      '',
    ].join('\n'),
  );
}

async function measuredCluster({ main, ranks }: MeasureOptions): Promise<ClusterDescription> {
  const device = await measuredRanks(main, ranks);
  const inside = device.link ?? {
    latencySeconds: 1e-6,
    bytesPerSecond: device.memoryBytesPerSecond,
  };
  return readCluster({
    name: hostname(),
    hosts: 1,
    devicesPerHost: ranks,
    device: {
      name: 'this machine',
      memoryBytes: totalmem() / ranks,
      flops: { f32: device.flops, half: device.flops },
      memoryBytesPerSecond: device.memoryBytesPerSecond,
      updateBytesPerSecond: device.updateBytesPerSecond,
      launchSeconds: device.launchSeconds,
    },
    // The processors that compute also copy the messages.
    links: { inside, between: inside, overlap: 0 },
    // What was measured is what is reached, and not a peak.
    efficiency: { products: 1, memory: 1, links: 1, allocator: 1, runtimeBytes: 0 },
    source: 'shardwise measure',
  });
}

async function measuredRanks(main: string, ranks: number): Promise<ReachedRates> {
  const extension = import.meta.url.endsWith('.ts') ? 'ts' : 'js';
  const script = fileURLToPath(new URL(`./measure-process.${extension}`, import.meta.url));
  const options = ['--nproc', String(ranks)];
  const outcome = await runScript({ main, options, script, file: MEASURED_FILE });
  if (outcome.kind === 'written') return parseMeasuredRanks(outcome.text);
  throw new ConfigError(
    {
      asked: `what ${ranks} ranks reach on this host`,
      found: 'ranks that could not be started',
      todo: 'Read the lines above, or measure with --nproc 1',
    },
    { ranks },
  );
}
