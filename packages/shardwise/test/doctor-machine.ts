import type { NativeAnswer, NativePart } from '../src/doctor/host/native-part.ts';
import type { Readings } from '../src/doctor/host/readings.ts';

export const GIB = 2 ** 30;
export const works = (found: string): NativeAnswer => ({ available: true, found });
export const fails = (reason: string): NativeAnswer => ({ available: false, reason });

const parts: Readonly<Record<NativePart, NativeAnswer>> = {
  onnxruntime: works('/lib/libonnxruntime.so.1'),
  'machine-code': works('AVX-512 and AVX512-BF16'),
  'shared-memory': works('memory of processes'),
  'open-mpi': fails('libmpi.so.40: cannot open shared object file: No such file or directory'),
  mpich: fails('libmpich.so.12: cannot open shared object file: No such file or directory'),
  webgpu: fails('this host has no adapter'),
};

/** The files of a healthy host. */
const healthy: Readonly<Record<string, string>> = {
  '/proc/meminfo': 'MemTotal:       33554432 kB\nMemAvailable:   16777216 kB\n',
  '/proc/cpuinfo': 'model name\t: A Processor\nflags\t\t: fpu avx2 avx512f\n',
  '/proc/self/status': 'Name:\tnode\nCpus_allowed_list:\t0-7\n',
  '/proc/self/cgroup': '0::/\n',
  '/proc/self/limits': [
    'Limit                     Soft Limit           Hard Limit           Units     ',
    'Max processes             96364                96364                processes ',
    'Max open files            65536                65536                files     ',
    'Max locked memory         8388608              8388608              bytes     ',
    'Max address space         unlimited            unlimited            bytes     ',
  ].join('\n'),
  '/proc/sys/net/ipv4/ip_local_port_range': '32768\t60999\n',
  '/sys/kernel/mm/transparent_hugepage/enabled': 'always [madvise] never\n',
  '/sys/devices/system/clocksource/clocksource0/current_clocksource': 'tsc\n',
  '/sys/devices/system/node/node0/cpulist': '0-7\n',
  '/sys/class/net/lo/operstate': 'unknown\n',
  '/sys/class/net/eth0/operstate': 'up\n',
  '/sys/class/net/eth0/speed': '10000\n',
  '/sys/class/net/eth0/mtu': '1500\n',
};

/** How a host differs from a healthy one. */
export interface Machine extends Partial<Readings> {
  readonly files?: Readonly<Record<string, string>>;
  readonly parts?: Partial<Readonly<Record<NativePart, NativeAnswer>>>;
}

/** A healthy host with the given differences. */
export function machine({ files = {}, parts: own = {}, ...more }: Machine = {}): Readings {
  const tree = { ...healthy, ...files };
  return {
    node: 'v24.21.0',
    platform: 'linux',
    architecture: 'x64',
    kernel: '6.1.0',
    host: 'one',
    cores: 8,
    load: () => 0.5,
    memoryBytes: 32 * GIB,
    now: () => Date.UTC(2026, 10, 29, 12),
    read: (path) => tree[path],
    list: (path) => [
      ...new Set(
        Object.keys(tree).flatMap((file) =>
          file.startsWith(`${path}/`) ? [file.slice(path.length + 1).split('/')[0] ?? ''] : [],
        ),
      ),
    ],
    fileSystem: () => ({ totalBytes: 16 * GIB, freeBytes: 16 * GIB }),
    portError: async () => undefined,
    native: async (part) => own[part] ?? parts[part],
    ...more,
  };
}
