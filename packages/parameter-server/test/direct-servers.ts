import { optim } from '@shardwise/core';
import { CollectiveError, type RequestClient, type RequestHandler } from '@shardwise/core/extend';
import type { ParameterServers } from '@shardwise/parameter-server';
import {
  createParameterServer,
  type OptimizerTable,
  type ParameterServer,
} from '@shardwise/parameter-server';

export const optimizers: OptimizerTable = {
  SGD: (groups) => new optim.SGD(groups),
  AdamW: (groups) => new optim.AdamW(groups),
};

/** What happens to messages on their way. */
export interface Way {
  /** Returns whether the request or its answer is lost. */
  readonly loses?: () => 'request' | 'answer' | undefined;
}

let clients = 0;

/** Servers that are called directly, without a network. */
export function directServers(
  handlers: readonly RequestHandler[],
  { loses = () => undefined }: Way = {},
): ParameterServers {
  return {
    size: handlers.length,
    whenClosed: () => undefined,
    connect: async (server) => {
      const ended = new AbortController();
      const client: RequestClient = { number: clients++, closed: ended.signal };
      const address = `server ${server}`;
      const lost = (): CollectiveError =>
        new CollectiveError(
          { asked: 'a request', found: 'lost', todo: 'Again' },
          { lost: address },
        );
      return {
        address,
        request: async (parts, read, { onSent } = {}) => {
          onSent?.();
          const fate = loses();
          if (fate === 'request') throw lost();
          const handler = handlers[server];
          if (handler === undefined) throw lost();
          const answer = await handler(
            parts.map((part) => part.slice()),
            client,
          );
          if (fate === 'answer') throw lost();
          return read(answer);
        },
        close: () => ended.abort(),
      };
    },
  };
}

export function startServers(
  count: number,
  leaseMs = 5000,
  waitMs = 600_000,
): Promise<readonly ParameterServer[]> {
  const servers = Array.from({ length: count }, (_, server) => server);
  return Promise.all(
    servers.map((server) =>
      createParameterServer({ server, servers: count, optimizers, leaseMs, waitMs }),
    ),
  );
}
