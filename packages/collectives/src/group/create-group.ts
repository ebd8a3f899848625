import {
  checkOptions,
  option,
  type OptionRules,
  type ProcessGroup,
  type Transport,
} from '@shardwise/core/spec';
import { milliseconds } from '../call/call-options.ts';
import type { Reducer } from '../reduce/reducer.ts';
import { SimdReducer } from '../reduce/simd-reducer.ts';
import type { NativeGroups } from './native-groups.ts';
import { AlgorithmChoice } from './selection/algorithm-choice.ts';
import { parseAlgorithmSetting } from './selection/algorithm-setting.ts';
import type { AlgorithmTable } from './selection/algorithm-table.ts';
import { defaultAlgorithmTable } from './selection/default-algorithm-table.ts';
import { hostNumbers, ranksByHost } from './topology.ts';
import { TransportGroup } from './transport-group.ts';

export interface CreateGroupOptions {
  /**
   * Whether ranks compare each call before its data moves: one short message between every two
   * ranks, for a CollectiveMismatchError instead of wrong results. Default: true.
   */
  readonly verify?: boolean;
  /**
   * Time limit of the calls of this group, and of groups split from it, that say no other. Default: 600,000.
   */
  readonly timeoutMs?: number;
  /**
   * By rank, the number of its host: where there are several, what ranks of one host tell each
   * other is cheap. Default: all on one host.
   */
  readonly hosts?: readonly number[];
  /**
   * Which algorithms to use: `'allReduce=ring,broadcast=tree'`, or one name for allReduce, the same
   * on every rank. Default: the environment variable SHARDWISE_ALGORITHM, else the table's choice.
   */
  readonly algorithm?: string;
  /** Which algorithm was measured to be the fastest where. Default: the package's own. */
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
 * The group of all ranks of a transport. Its tags are integers from 0 to 2^52. Closing it closes
 * the transport. Throws ConfigError for algorithms that there are not.
 */
export function createGroup(transport: Transport, options: CreateGroupOptions = {}): ProcessGroup {
  checkOptions('createGroup', options, groupRules);
  return groupOver(transport, options);
}

/** The same, where the transport is that of a library that does more for groups. */
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

/** Browsers have no environment. */
function environmentSetting(): string {
  return typeof process === 'undefined' ? '' : (process.env.SHARDWISE_ALGORITHM ?? '');
}
