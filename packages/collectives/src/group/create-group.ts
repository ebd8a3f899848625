import { checkOptions, option, type OptionRules, requireVersion } from '@shardwise/core/base';
import type { ProcessGroup, Transport } from '@shardwise/core/spec';
import { milliseconds } from '../call/call-options.ts';
import type { Reducer } from '../reduce/reducer.ts';
import { SimdReducer } from '../reduce/simd-reducer.ts';
import type { NativeGroups } from './selection/native-groups.ts';
import { AlgorithmChoice } from './selection/algorithm-choice.ts';
import { parseAlgorithmSetting } from './selection/algorithm-setting.ts';
import type { AlgorithmTable } from './selection/algorithm-table.ts';
import { defaultAlgorithmTable } from './selection/default-algorithm-table.ts';
import { hostNumbers, ranksByHost } from './topology.ts';
import { TransportGroup } from './transport-group.ts';

/** Options of `createGroup`. */
export interface CreateGroupOptions {
  /**
   * Whether ranks compare each call before its data moves. This takes one short message between every two
   * ranks. If calls differ, it throws a CollectiveMismatchError instead of giving wrong results. Default: true.
   */
  readonly verify?: boolean;
  /**
   * Milliseconds after which a call without its own limit fails. It applies to groups split from this one, too.
   * Default: 600,000.
   */
  readonly timeoutMs?: number;
  /**
   * For each rank, the number of its host. With several hosts, algorithms are chosen that send little between
   * hosts. Default: all ranks are on one host.
   */
  readonly hosts?: readonly number[];
  /**
   * Which algorithms to use: `'allReduce=ring,broadcast=tree'`, or one name for allReduce. It is the same on
   * every rank. Default: the environment variable SHARDWISE_ALGORITHM, and without it the choice of the table.
   */
  readonly algorithm?: string;
  /** The algorithm that was measured to be the fastest in each case. Default: the package's own table. */
  readonly algorithmTable?: AlgorithmTable;
}

const groupRules: OptionRules<CreateGroupOptions> = {
  verify: option.flag,
  timeoutMs: milliseconds,
  hosts: option.listOf(option.number),
  algorithm: option.text,
  algorithmTable: option.object('an algorithm table'),
};

/**
 * The group of all ranks of a transport. It uses integers from 0 to 2^52 as tags. Closing the group closes the
 * transport. Throws ConfigError for algorithms that do not exist, for `hosts` that do not fit the
 * transport, and for a transport of another version of the interface.
 */
export function createGroup(transport: Transport, options: CreateGroupOptions = {}): ProcessGroup {
  checkOptions('createGroup', options, groupRules);
  requireVersion('createGroup with a transport', transport, 1);
  return groupOver(transport, options);
}

/** Does what createGroup does, for the transport of a library that has collectives and reductions of its own. */
export function groupOver(
  transport: Transport,
  options: CreateGroupOptions,
  library?: { readonly native: NativeGroups; readonly reducer: Reducer },
): ProcessGroup {
  const members = Array.from({ length: transport.size }, (_, rank) => rank);
  const hosts = hostNumbers(options.hosts, transport.size);
  const choice = new AlgorithmChoice(
    ranksByHost(hosts),
    parseAlgorithmSetting(options.algorithm ?? environmentSetting()),
    options.algorithmTable ?? defaultAlgorithmTable,
    library !== undefined,
  );
  const group = new TransportGroup(
    { transport, members, hosts, id: 0 },
    { verify: options.verify ?? true, ...(library ?? { reducer: new SimdReducer() }) },
    choice,
  );
  if (options.timeoutMs !== undefined) group.limitTo(options.timeoutMs);
  return group;
}

/** The environment's choice of algorithms. Browsers have no environment. */
function environmentSetting(): string {
  return typeof process === 'undefined' ? '' : (process.env.SHARDWISE_ALGORITHM ?? '');
}
