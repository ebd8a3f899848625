import { checkOptions, option, type OptionRules } from '@shardwise/core/base';
import type { ProcessGroup, Transport, TypedBytes } from '@shardwise/core/spec';
import { type Operation, operations } from '../../call/record.ts';
import { createGroup } from '../create-group.ts';
import { hostNumbers, ranksByHost } from '../topology.ts';
import { algorithms } from '../selection/algorithms.ts';

/** The time of one operation with one algorithm. It is the best time of all rounds on this rank. */
export interface AlgorithmMeasurement {
  readonly operation: Operation;
  readonly algorithm: string;
  readonly rankOrder: boolean;
  readonly hosts: 'one' | 'several';
  readonly ranks: number;
  /** n of the operation's shape line, in bytes. */
  readonly bytes: number;
  readonly microseconds: number;
}

/** Options of `measureAlgorithms`. */
export interface MeasureOptions {
  /** The number of each rank's host, as in the options of createGroup. */
  readonly hosts?: readonly number[];
  /** The sizes to measure, in bytes. They are multiples of 4. */
  readonly sizesBytes: readonly number[];
  readonly rounds: number;
  /** Allocates memory for the values. Default: on the heap. */
  readonly allocate?: Allocate;
}

const measureRules: OptionRules<MeasureOptions> = {
  hosts: option.listOf(option.number),
  sizesBytes: option.required(option.listOf(option.count)),
  rounds: option.required(option.count),
  allocate: option.callback(),
};

/**
 * Calls are timed together, up to this many bytes and this many calls, so that the resolution of the clock does not
 * matter.
 */
const CALL_BYTES = 1 << 20;
const MAX_CALLS = 20;

/**
 * Times every operation that has several algorithms, with each of them, round by round. All ranks of a
 * transport call it with the same options. Nothing else may use the transport. Throws ConfigError for options
 * that do not fit.
 */
export async function measureAlgorithms(
  transport: Transport,
  options: MeasureOptions,
): Promise<readonly AlgorithmMeasurement[]> {
  checkOptions('measureAlgorithms', options, measureRules);
  const ranksOfHosts = ranksByHost(hostNumbers(options.hosts, transport.size));
  const measured: AlgorithmMeasurement[] = [];
  for (const operation of operations) {
    const candidates = algorithms[operation].filter(({ supports }) =>
      supports(ranksOfHosts, false),
    );
    const callOf = calls[operation];
    if (candidates.length < 2 || callOf === undefined) continue;
    const groups = candidates.map(({ name }) =>
      createGroup(transport, {
        algorithm: `${operation}=${name}`,
        ...(options.hosts === undefined ? {} : { hosts: options.hosts }),
      }),
    );
    for (const bytes of operation === 'barrier' ? [0] : options.sizesBytes) {
      const call = callOf(options.allocate ?? onHeap, bytes, transport.size);
      const best = groups.map(() => Infinity);
      // The first round only warms up.
      for (let round = 0; round <= options.rounds; round++) {
        for (const [index, group] of groups.entries()) {
          const microseconds = await timeOf(group, call, bytes);
          if (round > 0) best[index] = Math.min(best[index] ?? Infinity, microseconds);
        }
      }
      for (const [index, { name, rankOrder }] of candidates.entries()) {
        measured.push({
          operation,
          algorithm: name,
          rankOrder,
          hosts: ranksOfHosts.length > 1 ? 'several' : 'one',
          ranks: transport.size,
          bytes,
          microseconds: best[index] ?? Infinity,
        });
      }
    }
  }
  return measured;
}

type Call = (group: ProcessGroup) => Promise<void>;

async function timeOf(group: ProcessGroup, call: Call, bytes: number): Promise<number> {
  const count = Math.max(1, Math.min(MAX_CALLS, Math.floor(CALL_BYTES / Math.max(bytes, 1))));
  await group.barrier();
  const start = performance.now();
  for (let i = 0; i < count; i++) await call(group);
  return (1000 * (performance.now() - start)) / count;
}

type Allocate = (byteLength: number) => Uint8Array;

/** A call of each operation that has several algorithms. */
const calls: Partial<Record<Operation, (allocate: Allocate, bytes: number, size: number) => Call>> =
  {
    allReduce: (allocate, bytes) => {
      const buffer = typed(allocate(bytes));
      return (group) => group.allReduce(buffer, 'sum');
    },
    reduceScatter: (allocate, bytes, size) => {
      const input = typed(allocate(size * bytes));
      const output = typed(allocate(bytes));
      return (group) => group.reduceScatter(input, output, 'sum');
    },
    reduce: (allocate, bytes) => {
      const buffer = typed(allocate(bytes));
      return (group) => group.reduce(buffer, 0, 'sum');
    },
    allGather: (allocate, bytes, size) => {
      const input = typed(allocate(bytes));
      const output = typed(allocate(size * bytes));
      return (group) => group.allGather(input, output);
    },
    broadcast: (allocate, bytes) => {
      const buffer = typed(allocate(bytes));
      return (group) => group.broadcast(buffer, 0);
    },
    barrier: () => (group) => group.barrier(),
  };

function typed(bytes: Uint8Array): TypedBytes {
  return { bytes, dtype: 'f32' };
}

function onHeap(byteLength: number): Uint8Array {
  return new Uint8Array(byteLength);
}
