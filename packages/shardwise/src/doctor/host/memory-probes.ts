import { formatBytes } from '../../text/format.ts';
import { cgroupText } from './cgroup.ts';
import type { Finding } from './finding.ts';
import type { Readings } from './readings.ts';

// How much memory there is, and who limits it.

const GIB = 2 ** 30;

export function memoryProbe(readings: Readings): Finding {
  const name = 'memory';
  const available = kibibytes(readings.read('/proc/meminfo'), 'MemAvailable');
  const limit = leastCgroupBytes(readings, ['memory.max', 'memory.high'], 'memory.limit_in_bytes');
  const used = leastCgroupBytes(readings, ['memory.current'], 'memory.usage_in_bytes');
  const isLimited = limit !== undefined && limit < readings.memoryBytes;
  const total = isLimited ? limit : readings.memoryBytes;
  const leftOfLimit = isLimited ? limit - (used ?? 0) : undefined;
  const free = Math.min(available ?? total, leftOfLimit ?? Infinity);
  const found = `${formatBytes(free)} free of ${formatBytes(total)}${isLimited ? ', a limit of the cgroup' : ''}`;
  const figures = { freeBytes: free, totalBytes: total, isLimited };
  if (free < GIB / 2) {
    const todo = isLimited
      ? 'Raise the memory limit of the container or job, or end other programs in it'
      : 'End other programs, or use fewer ranks or a larger host';
    return { name, level: 'red', found, todo, figures };
  }
  if (free < 2 * GIB) {
    const todo =
      'If the model does not fit, use fewer ranks or a smaller batch, or let zero or fsdp share it out';
    return { name, level: 'yellow', found, todo, figures };
  }
  return { name, level: 'green', found, figures };
}

export function hugePagesProbe({ read, platform }: Readings): Finding {
  const name = 'huge pages';
  const path = '/sys/kernel/mm/transparent_hugepage/enabled';
  const setting = /\[(\w+)\]/.exec(read(path) ?? '')?.[1];
  if (setting === 'always' || setting === 'madvise') {
    return { name, level: 'green', found: setting, figures: { setting } };
  }
  if (setting === undefined) {
    const found = platform === 'linux' ? 'the kernel does not say' : `not asked for on ${platform}`;
    return { name, level: 'green', found };
  }
  const todo = `As root: echo madvise > ${path}`;
  return { name, level: 'yellow', found: setting, todo, figures: { setting } };
}

/** Docker's default. */
const SMALL_SHM_BYTES = 64 * 2 ** 20;

export function devShmProbe({ fileSystem, platform }: Readings): Finding {
  const name = '/dev/shm';
  const size = fileSystem('/dev/shm');
  if (size === undefined) {
    const found =
      platform === 'linux' ? 'there is none; only MPI and other programs use it' : 'only on Linux';
    return { name, level: 'green', found };
  }
  const { totalBytes, freeBytes } = size;
  const found = `${formatBytes(freeBytes)} free of ${formatBytes(totalBytes)}`;
  const figures = { totalBytes, freeBytes };
  if (freeBytes > SMALL_SHM_BYTES) return { name, level: 'green', found, figures };
  return {
    name,
    level: 'yellow',
    found,
    todo: 'Ranks of shardwise run need none. For MPI, start the container with --shm-size=8g or --ipc=host',
    figures,
  };
}

const LEAST_FILES = 1024;

export function limitsProbe({ read, list, platform }: Readings): Finding {
  const name = 'limits';
  const text = read('/proc/self/limits');
  if (text === undefined) {
    const found = platform === 'linux' ? 'the kernel does not say' : `not read on ${platform}`;
    return { name, level: 'green', found };
  }
  const [files, processes, addresses, locked] = [
    'open files',
    'processes',
    'address space',
    'locked memory',
  ].map((limit) => softLimit(text, limit));
  const todos = [
    ...(isBelow(files, LEAST_FILES) ? ['raise open files: ulimit -n 65536'] : []),
    ...(isBelow(processes, LEAST_FILES) ? ['raise processes: ulimit -u 4096'] : []),
    // Each memory of WebAssembly reserves gigabytes of addresses, which cost nothing.
    ...(isBelow(addresses, Infinity) ? ['free the address space: ulimit -v unlimited'] : []),
    ...(isBelow(locked, Infinity) && list('/sys/class/infiniband').length > 0
      ? ['free locked memory for InfiniBand: ulimit -l unlimited']
      : []),
  ];
  const found = `open files ${shown(files)}, processes ${shown(processes)}, address space ${shown(addresses, formatBytes)}, locked memory ${shown(locked, formatBytes)}`;
  const figures = {
    openFiles: shown(files),
    processes: shown(processes),
    addressSpace: shown(addresses),
    lockedMemory: shown(locked),
  };
  if (todos.length === 0) return { name, level: 'green', found, figures };
  const todo = todos.join('; ');
  return {
    name,
    level: 'yellow',
    found,
    todo: `${todo.charAt(0).toUpperCase()}${todo.slice(1)}`,
    figures,
  };
}

function isBelow(limit: number | undefined, least: number): boolean {
  return limit !== undefined && limit < least;
}

function shown(limit: number | undefined, format: (limit: number) => string = String): string {
  if (limit === undefined) return 'unknown';
  return limit === Infinity ? 'unlimited' : format(limit);
}

function softLimit(text: string, limit: string): number | undefined {
  const soft = new RegExp(`^Max ${limit}\\s+(\\d+|unlimited)`, 'm').exec(text)?.[1];
  if (soft === undefined) return undefined;
  return soft === 'unlimited' ? Infinity : Number(soft);
}

function kibibytes(text: string | undefined, field: string): number | undefined {
  const digits = new RegExp(`^${field}:\\s+(\\d+) kB`, 'm').exec(text ?? '')?.[1];
  return digits === undefined ? undefined : Number(digits) * 1024;
}

function leastCgroupBytes(
  readings: Readings,
  names: readonly string[],
  nameOfVersion1: string,
): number | undefined {
  const texts = names.flatMap((file) => cgroupText(readings, file, `memory/${nameOfVersion1}`));
  const bytes = texts.map((text) => text.trim()).filter((text) => /^\d{1,19}$/.test(text));
  return bytes.length === 0 ? undefined : Math.min(...bytes.map(Number));
}
