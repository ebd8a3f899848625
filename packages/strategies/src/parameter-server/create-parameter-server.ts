import {
  checkOptions,
  option,
  type OptionRules,
  type RequestHandler,
} from '@shardwise/core/extend';
import { readRequest } from './server-message.ts';
import { refusal } from './refusal.ts';
import { ShardHost } from './shard-host.ts';
import type { ShardStatistics } from './shard-statistics.ts';
import { Shard } from './shard.ts';
import type { OptimizerTable } from './stored-parameters.ts';

export interface ParameterServerOptions {
  /** Which of the servers this is, from 0. */
  readonly server: number;
  /** The optimizers that workers may ask for, by name. */
  readonly optimizers: OptimizerTable;
  /** How long a worker may be without a connection before it counts as lost. Default: 5000. */
  readonly leaseMs?: number;
}

const serverRules: OptionRules<ParameterServerOptions> = {
  server: option.required(option.count),
  optimizers: option.required(option.object('a table of optimizers')),
  leaseMs: option.positive,
};

/** A server of parameters, which computes on this thread's device. */
export interface ParameterServer {
  /** What answers the requests of workers. */
  readonly handler: RequestHandler;
  readonly statistics: ShardStatistics;
  close(): void;
}

/** A server whose `handler` a listener gives requests to. Throws ConfigError for options out of range. */
export function createParameterServer(options: ParameterServerOptions): ParameterServer {
  checkOptions('createParameterServer', options, serverRules);
  const { server, optimizers, leaseMs = 5000 } = options;
  const host = new ShardHost(new Shard(optimizers), { leaseMs });
  return {
    handler: async (parts, client) => {
      const { request, arrays } = readRequest(parts);
      if (request.shard !== server) {
        throw refusal(
          'malformed',
          `a request for range ${request.shard}`,
          `this server has range ${server}`,
          'Check that every process knows the servers in the same order',
        );
      }
      return host.answer(request, arrays, client);
    },
    get statistics() {
      return host.statistics;
    },
    close: () => host.close(),
  };
}
