import { checkOptions, option, type OptionRules } from '@shardwise/core/base';
import { ConfigError, type MeshAxis } from '@shardwise/core/spec';

/** Options of `meshFromHosts`. */
export interface HostMeshOptions {
  /** The name of the axis inside a host. Default: 'tp'. */
  readonly inner?: string;
  /** The name of the axis that crosses hosts. Default: 'dp'. */
  readonly outer?: string;
  /**
   * The number of ranks along the inner axis. Default: the largest that divides the ranks of every host, which
   * is 2 for hosts with 4 and 6 ranks.
   */
  readonly innerSize?: number;
}

const hostsRules = { hosts: option.required(option.listOf(option.number)) };
const hostMeshRules: OptionRules<HostMeshOptions> = {
  inner: option.axisName,
  outer: option.axisName,
  innerSize: option.number,
};

/**
 * The axes of a mesh whose inner axis never leaves a host, as tensor parallelism needs it. `hosts` has the
 * number of each rank's host, as in the options of createGroup. The ranks of a host have consecutive numbers.
 * Throws ConfigError if a group of the inner axis would lie on two hosts.
 */
export function meshFromHosts(
  hosts: readonly number[],
  options: HostMeshOptions = {},
): readonly MeshAxis[] {
  checkOptions('meshFromHosts', options, hostMeshRules);
  checkOptions('meshFromHosts', { hosts }, hostsRules);
  const { inner = 'tp', outer = 'dp' } = options;
  const perHost = ranksPerHost(hosts);
  const innerSize = options.innerSize ?? perHost.reduce(greatestCommonDivisor, 0);
  const fits =
    Number.isInteger(innerSize) &&
    innerSize > 0 &&
    perHost.length > 0 &&
    perHost.every((count) => count % innerSize === 0);
  if (!fits) {
    throw new ConfigError(
      {
        asked: `the axis '${inner}' of ${innerSize} ranks inside a host`,
        found: `hosts with ${perHost.join(', ') || 'no'} ranks`,
        todo: `Use a size that divides the ranks of every host, such as ${perHost.reduce(greatestCommonDivisor, 0) || 1}`,
      },
      { inner, innerSize, ranksPerHost: perHost },
    );
  }
  return [
    { name: outer, size: hosts.length / innerSize },
    { name: inner, size: innerSize },
  ];
}

/** The number of ranks of each host, in the order of the ranks. */
function ranksPerHost(hosts: readonly number[]): readonly number[] {
  const counts = new Map<number, number>();
  hosts.forEach((host, rank) => {
    if (counts.has(host) && hosts[rank - 1] !== host) {
      throw new ConfigError(
        {
          asked: `a mesh over the hosts ${hosts.join(', ')}`,
          found: `rank ${rank} on host ${host} apart from that host's other ranks`,
          todo: 'Number the ranks host by host',
        },
        { hosts, rank },
      );
    }
    counts.set(host, (counts.get(host) ?? 0) + 1);
  });
  return [...counts.values()];
}

function greatestCommonDivisor(a: number, b: number): number {
  return b === 0 ? a : greatestCommonDivisor(b, a % b);
}
