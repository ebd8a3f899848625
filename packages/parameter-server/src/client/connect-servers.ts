import { connectRequests } from '@shardwise/collectives/node';
import { checkOptions, ConfigError, option, type OptionRules } from '@shardwise/core/extend';
import type { ParameterServers } from '../protocol/parameter-servers.ts';

/** The address of a request server. */
export interface ServerAddress {
  readonly host: string;
  readonly port: number;
}

/** Options of `connectServers`. */
export interface ConnectServersOptions {
  /** The addresses of all parameter servers, in the same order on every worker. */
  readonly addresses: readonly ServerAddress[];
  readonly secret: string;
  /** Whether each server has a copy of the previous server's data. Default: false. */
  readonly areReplicated?: boolean;
  /** Whether all traffic is encrypted, as on the servers. Default: false. */
  readonly encrypt?: boolean;
  /** Milliseconds that a connection may take. Default: 10,000. */
  readonly timeoutMs?: number;
}

const connectRules: OptionRules<ConnectServersOptions> = {
  addresses: option.required(option.listOf(option.object<ServerAddress>('an address'))),
  secret: option.required(option.nonEmptyText),
  areReplicated: option.flag,
  encrypt: option.flag,
  timeoutMs: option.positive,
};

/** The parameter servers at these addresses, for `parameterServer()`. */
export interface ConnectedServers extends ParameterServers {
  /** Tells the servers that this worker leaves. */
  close(): Promise<void>;
}

/**
 * Describes the parameter servers at these addresses. They are connected when they are needed. Throws
 * ConfigError for options that do not fit.
 */
export function connectServers(options: ConnectServersOptions): ConnectedServers {
  checkOptions('connectServers', options, connectRules);
  const { addresses, areReplicated = false, ...common } = options;
  const leaving: (() => Promise<void>)[] = [];
  return {
    size: addresses.length,
    areReplicated,
    connect: async (server) => {
      const { [server]: address } = addresses;
      if (address !== undefined) return connectRequests({ ...common, ...address });
      throw new ConfigError({
        asked: `parameter server ${server}`,
        found: `${addresses.length} servers`,
        todo: 'Give the addresses of all servers',
      });
    },
    whenClosed: (leave) => void leaving.push(leave),
    close: async () => {
      await Promise.all(leaving.splice(0).map((leave) => leave()));
    },
  };
}
