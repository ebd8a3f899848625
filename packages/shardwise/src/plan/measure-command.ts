import { writeFile } from 'node:fs/promises';
import { hostname, totalmem } from 'node:os';
import { ConfigError } from '@shardwise/core/spec';
import { type ClusterDescription, clusterFromTrace, readCluster } from '@shardwise/planner';
import { openTrace } from '@shardwise/planner/node';
import type { LinkReport } from '../doctor/links/link-report.ts';
import { runLinks } from '../doctor/links/run-links.ts';
import { median } from '../run-state/median.ts';
import { displayPath } from '../text/display-path.ts';
import { formatBytes, formatCount } from '../text/format.ts';
import { measureDevice } from './measure-device.ts';

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
      `call of a program: ${(device.launchSeconds * 1e6).toFixed(0)} µs`,
      `link: ${formatBytes(links.inside.bytesPerSecond)}/s, ${(links.inside.latencySeconds * 1e6).toFixed(0)} µs`,
      `Cluster: ${displayPath(file)}`,
      '',
    ].join('\n'),
  );
}

async function measuredCluster({ main, ranks }: MeasureOptions): Promise<ClusterDescription> {
  // The ranks that measure links must not wait for a processor that measures products.
  const links = ranks === 1 ? [] : (await measuredLinks(main, ranks)).links;
  const device = await measureDevice(ranks);
  const link = {
    latencySeconds: median(links.map(({ latencyUs }) => latencyUs / 1e6)) ?? 1e-6,
    bytesPerSecond:
      median(links.map(({ bytesPerSecond }) => bytesPerSecond)) ?? device.memoryBytesPerSecond,
  };
  return readCluster({
    name: hostname(),
    hosts: 1,
    devicesPerHost: ranks,
    device,
    links: { inside: link, between: link },
    // What was measured is what is reached, and not a peak.
    efficiency: { products: 1, memory: 1, links: 1, allocator: 1, runtimeBytes: 0 },
    source: 'shardwise measure',
  });
}

async function measuredLinks(main: string, ranks: number): Promise<LinkReport> {
  const outcome = await runLinks(main, ['--nproc', String(ranks)]);
  if (outcome.kind === 'measured') return outcome.report;
  throw new ConfigError(
    {
      asked: `the links between ${ranks} ranks`,
      found: 'ranks that could not be started',
      todo: 'Read the lines above, or measure with --nproc 1',
    },
    { ranks },
  );
}
