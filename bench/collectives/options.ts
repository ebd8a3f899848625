import { units } from './format.ts';
import { operationNames, type OperationName } from './job.ts';
import { UsageError } from '../usage-error.ts';
import { MAX_BYTES } from './rank-work.ts';

export const transportNames = ['threads', 'shm', 'tcp', 'mpi'] as const;
export type TransportName = (typeof transportNames)[number];

/** The flags of `collectives`. Lists are separated by commas. */
export const collectivesFlags = {
  transports: { type: 'string', default: transportNames.join() },
  operations: { type: 'string', default: operationNames.join() },
  sizes: { type: 'string', default: '1KiB,64KiB,1MiB,64MiB' },
  world: { type: 'string', default: '2,4' },
  rounds: { type: 'string', default: '15' },
  peers: { type: 'string', default: 'gloo,openMpi' },
  /** The file for the table of algorithms. If it is given, the benchmark only makes this table. */
  tune: { type: 'string', default: '' },
} as const;

export interface CollectivesOptions {
  readonly transports: readonly TransportName[];
  readonly operations: readonly OperationName[];
  readonly sizes: readonly number[];
  readonly worlds: readonly number[];
  readonly rounds: number;
  readonly peers: readonly ('gloo' | 'openMpi')[];
}

/** Throws UsageError for values that are not offered. */
export function parseOptions(values: Readonly<Record<string, unknown>>): CollectivesOptions {
  const list = (name: keyof typeof collectivesFlags): readonly string[] => {
    const value = values[name];
    const text = typeof value === 'string' ? value : collectivesFlags[name].default;
    return text.split(',').filter((part) => part !== '');
  };
  return {
    transports: list('transports').map((name) => oneOf('transports', name, transportNames)),
    operations: list('operations').map((name) => oneOf('operations', name, operationNames)),
    sizes: list('sizes').map(parseSize),
    worlds: list('world').map((text) => parseCount('world', text, 2, 16)),
    rounds: parseCount('rounds', list('rounds')[0] ?? '', 1, 1000),
    peers: list('peers').map((name) => oneOf('peers', name, ['gloo', 'openMpi'] as const)),
  };
}

function oneOf<T extends string>(option: string, name: string, names: readonly T[]): T {
  const found = names.find((known) => known === name);
  if (found !== undefined) return found;
  throw new UsageError(
    `unknown value '${name}' of --${option}`,
    `Give some of ${names.join(', ')}`,
  );
}

function parseCount(option: string, text: string, low: number, high: number): number {
  const count = Number(text);
  if (Number.isInteger(count) && count >= low && count <= high) return count;
  throw new UsageError(`--${option} is '${text}'`, `Give whole numbers from ${low} to ${high}`);
}

const MIN_BYTES = 1 << 10;

/** Parses a size. It must be a whole number of elements for each of up to 16 ranks. */
function parseSize(text: string): number {
  const [, count = '', unit] = /^(\d+)(KiB|MiB)$/.exec(text) ?? [];
  const bytes = Number(count) * (unit === 'KiB' || unit === 'MiB' ? units[unit] : Number.NaN);
  if (bytes >= MIN_BYTES && bytes <= MAX_BYTES) return bytes;
  throw new UsageError(
    `--sizes has '${text}'`,
    'Give sizes from 1KiB to 64MiB, such as 64KiB,1MiB',
  );
}
