import { checkOptions, option, type OptionRules } from '@shardwise/core/base';
import { ConfigError } from '@shardwise/core/spec';
import type { SharedMemoryGroup } from '../../shared-memory/shared-memory-group.ts';
import type { WatchedTransport } from '../watched-transport.ts';
import { HostedEnd } from './hosted-end.ts';

/** Options of `hostedTransport`. */
export interface HostedTransportOptions {
  /**
   * The group of this host's ranks, in the order of their ranks. Nothing else may send messages on it.
   * Undefined if this rank is alone on its host.
   */
  readonly local?: SharedMemoryGroup | undefined;
  /** A transport over all ranks. It needs to reach only the ranks of other hosts. */
  readonly remote: WatchedTransport;
  /** For each rank, the number of its host. */
  readonly hosts: readonly number[];
}

const hostedRules: OptionRules<HostedTransportOptions> = {
  local: option.object('the world of this host'),
  remote: option.required(option.object('a transport')),
  hosts: option.required(option.listOf(option.count)),
};

/**
 * A transport for several ranks on each of several hosts. Messages between ranks of one host go through their
 * shared memory, the others over `remote`. A failure of either ends both with one cause, and so does closing
 * the transport. Throws ConfigError if the three options do not fit together.
 */
export function hostedTransport(options: HostedTransportOptions): WatchedTransport {
  checkOptions('hostedTransport', options, hostedRules);
  const { local, remote, hosts } = options;
  const { rank, size } = remote;
  check(hosts.length === size, `hosts of ${hosts.length} ranks`, `the transport has ${size}`);
  const residents = hosts.flatMap((host, resident) => (host === hosts[rank] ? [resident] : []));
  if (local === undefined) {
    check(
      residents.length === 1,
      'no local group',
      `ranks ${residents.join(', ')} share the host of rank ${rank}`,
    );
    return remote;
  }
  check(
    local.size === residents.length && residents[local.rank] === rank,
    `rank ${rank} as rank ${local.rank} of ${local.size} on its host`,
    `by \`hosts\`, ranks ${residents.join(', ')} share that host`,
  );
  return new HostedEnd(local, remote, residents);
}

function check(isValid: boolean, what: string, found: string): void {
  if (isValid) return;
  throw new ConfigError({
    asked: `A hosted transport with ${what}`,
    found,
    todo: 'Let hosts hold one number for each rank, and number the local ranks in their order',
  });
}
