import { ConfigError } from '@shardwise/core/extend';
import { type ClusterDescription, readCluster, usualEfficiency } from './cluster.ts';

const GB = 1e9;
const TERA = 1e12;

/** A kind of device as clusters have it. */
interface CatalogueEntry {
  readonly memory: number;
  /** Dense products, in 1e12 operations per second. */
  readonly f32: number;
  readonly half: number;
  readonly f8?: number;
  /** 1e9 bytes per second. */
  readonly bandwidth: number;
  /** 1e9 bytes per second in each direction, of one device. */
  readonly inside: number;
  readonly between: number;
  readonly toHost: number;
  readonly watts: number;
  /** The share of `half` that large products reach, if it was measured. */
  readonly products?: number;
  readonly source: string;
}

/**
 * Devices with the figures of their data sheets: dense products without sparsity, and the network of the maker's own
 * server with 8 devices.
 */
const devices: Readonly<Record<string, CatalogueEntry>> = {
  v100: {
    memory: 32,
    f32: 15.7,
    half: 125,
    bandwidth: 900,
    inside: 150,
    between: 12.5,
    toHost: 16,
    watts: 300,
    source:
      'NVIDIA V100 data sheet (SXM2, 32 GB); DGX-1: 4 × 100 Gb/s for 8 devices, here 100 Gb/s each',
  },
  'a100-40': {
    memory: 40,
    f32: 19.5,
    half: 312,
    bandwidth: 1555,
    inside: 300,
    between: 25,
    toHost: 32,
    watts: 400,
    products: 0.75,
    source: 'NVIDIA A100 data sheet (SXM, 40 GB); DGX A100: 8 × 200 Gb/s',
  },
  a100: {
    memory: 80,
    f32: 19.5,
    half: 312,
    bandwidth: 2039,
    inside: 300,
    between: 25,
    toHost: 32,
    watts: 400,
    products: 0.75,
    source: 'NVIDIA A100 data sheet (SXM, 80 GB); DGX A100: 8 × 200 Gb/s',
  },
  h100: {
    memory: 80,
    f32: 67,
    half: 989,
    f8: 1979,
    bandwidth: 3350,
    inside: 450,
    between: 50,
    toHost: 64,
    watts: 700,
    source: 'NVIDIA H100 data sheet (SXM); DGX H100: 8 × 400 Gb/s',
  },
  h200: {
    memory: 141,
    f32: 67,
    half: 989,
    f8: 1979,
    bandwidth: 4800,
    inside: 450,
    between: 50,
    toHost: 64,
    watts: 700,
    source: 'NVIDIA H200 data sheet (SXM); HGX H200: 8 × 400 Gb/s',
  },
  b200: {
    memory: 180,
    f32: 80,
    half: 2250,
    f8: 4500,
    bandwidth: 8000,
    inside: 900,
    between: 50,
    toHost: 64,
    watts: 1000,
    source: 'NVIDIA DGX B200 data sheet, divided by 8 devices',
  },
  mi300x: {
    memory: 192,
    f32: 163.4,
    half: 1307,
    f8: 2615,
    bandwidth: 5300,
    inside: 448,
    between: 50,
    toHost: 64,
    watts: 750,
    source: 'AMD Instinct MI300X data sheet; 8 × 400 Gb/s as servers have',
  },
  l40s: {
    memory: 48,
    f32: 91.6,
    half: 362,
    f8: 733,
    bandwidth: 864,
    inside: 32,
    between: 12.5,
    toHost: 32,
    watts: 350,
    source: 'NVIDIA L40S data sheet; PCIe 4.0 inside of a host, 100 Gb/s between hosts',
  },
  'rtx-4090': {
    memory: 24,
    f32: 82.6,
    half: 165,
    f8: 330,
    bandwidth: 1008,
    inside: 32,
    between: 3.125,
    toHost: 32,
    watts: 450,
    source:
      'NVIDIA Ada architecture paper, appendix A; PCIe 4.0 inside of a host, 25 Gb/s between hosts',
  },
};

/** The names of devices that `namedCluster` knows. */
export const deviceNames: readonly string[] = Object.keys(devices);

/**
 * Describes a cluster by the number and the kind of its devices, such as `128xh100` or `4x8xa100` (hosts × devices of
 * a host × kind). Hosts have 8 devices, or all if there are fewer. Throws ConfigError.
 */
export function namedCluster(name: string): ClusterDescription {
  const found = /^(?:(\d{1,6})x)?(\d{1,6})x([a-z][a-z0-9-]{1,20})$/.exec(name.toLowerCase());
  const kind = found?.[3] ?? '';
  const entry = Object.hasOwn(devices, kind) ? devices[kind] : undefined;
  if (found === null || entry === undefined) {
    throw new ConfigError(
      {
        asked: `the cluster '${name.slice(0, 80)}'`,
        found: found === null ? 'no text such as 128xh100' : `no device '${kind}'`,
        todo: `Give the number of devices, 'x' and one of ${deviceNames.join(', ')}, or a file`,
      },
      { cluster: name },
    );
  }
  const count = Number(found[2]);
  const hosts = found[1] === undefined ? Math.ceil(count / 8) : Number(found[1]);
  const devicesPerHost = found[1] === undefined ? Math.min(8, count) : count;
  if (found[1] === undefined && count > 8 && count % 8 !== 0) {
    throw new ConfigError(
      {
        asked: `the cluster '${name}'`,
        found: `${count} devices, which are no whole number of hosts with 8 devices`,
        todo: `Say how many hosts there are, and devices in each: HOSTSxDEVICESx${kind}`,
      },
      { cluster: name },
    );
  }
  return clusterOf(name, kind, entry, hosts, devicesPerHost);
}

function clusterOf(
  name: string,
  kind: string,
  entry: CatalogueEntry,
  hosts: number,
  devicesPerHost: number,
): ClusterDescription {
  const { f8 } = entry;
  return readCluster({
    name,
    hosts,
    devicesPerHost,
    device: {
      name: kind,
      memoryBytes: entry.memory * GB,
      flops: {
        f32: entry.f32 * TERA,
        half: entry.half * TERA,
        ...(f8 === undefined ? {} : { f8: f8 * TERA }),
      },
      memoryBytesPerSecond: entry.bandwidth * GB,
      launchSeconds: 1.2e-5,
      watts: entry.watts,
    },
    links: {
      inside: { latencySeconds: 5e-6, bytesPerSecond: entry.inside * GB },
      between: { latencySeconds: 1e-5, bytesPerSecond: entry.between * GB },
      toHost: { latencySeconds: 1e-5, bytesPerSecond: entry.toHost * GB },
    },
    hostMemoryBytes: 2e12,
    efficiency: { ...usualEfficiency, products: entry.products ?? usualEfficiency.products },
    source: entry.source,
  });
}
