import { registerHooks } from 'node:module';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { pathToFileURL } from 'node:url';
import { createGroup } from '@shardwise/collectives';
import { connectStore, PrefixStore } from '@shardwise/collectives/node';
import {
  CollectiveError,
  CollectiveTimeoutError,
  ConfigError,
  ShardwiseError,
  type Transport,
  type TransportFactory,
  type TransportFactoryContext,
} from '@shardwise/core/spec';
import { requireVersion } from '@shardwise/core/base';
import type { ModuleWay, TransportModule } from '../../launcher/transports/join-way.ts';
import { describeError } from '../../text/describe-error.ts';
import { countTraffic } from './count-traffic.ts';
import type { JoinedRank } from './joined-rank.ts';

/**
 * Joins ranks by the transport of the module that the user has named. Throws ConfigError if the module is no such
 * module, CollectiveTimeoutError if its factory takes too long, and CollectiveError if it fails.
 */
export async function joinByModule(
  { module, hosts, meeting }: ModuleWay,
  rank: number,
): Promise<JoinedRank> {
  const factory = await factoryOf(module);
  const { secret, epoch, host } = meeting;
  const store = await connectStore({ ...meeting.store, secret });
  try {
    const transport = await connect(module, factory, {
      rank,
      size: hosts.length,
      hosts,
      host,
      store: new PrefixStore(`transport/${epoch}`, store),
      secret,
      timeoutMs: module.timeoutMs,
    });
    const traffic = { sentBytes: 0, receivedBytes: 0 };
    const group = createGroup(countTraffic(transport, traffic), { hosts });
    return { group, arena: undefined, traffic };
  } finally {
    store.close();
  }
}

async function factoryOf(module: TransportModule): Promise<TransportFactory> {
  const asked = `--transport ${module.name}`;
  const fields = { transport: module.name };
  let exported: unknown;
  try {
    exported = await importFrom(module);
  } catch (cause) {
    throw new ConfigError(
      {
        asked,
        found: `the module cannot be loaded (${describeError(cause)})`,
        todo: 'Make `node` run the module without an error',
      },
      fields,
      { cause },
    );
  }
  const factory = isObject(exported) ? exported['default'] : undefined;
  if (isFactory(factory)) return factory;
  throw new ConfigError(
    {
      asked,
      found:
        factory === undefined
          ? 'the module has no default export'
          : `its default export is ${kindOf(factory)}, not a function`,
      todo: 'Export a TransportFactory: `export default async ({ rank, size, store }) => …`',
    },
    fields,
  );
}

/** Imports the module as a file of its directory would. */
async function importFrom({ specifier, directory }: TransportModule): Promise<unknown> {
  const parentURL = pathToFileURL(join(directory, 'package.json')).href;
  const hooks = registerHooks({
    resolve: (asked, context, next) =>
      next(asked, asked === specifier ? { ...context, parentURL } : context),
  });
  try {
    return await import(specifier);
  } finally {
    hooks.deregister();
  }
}

async function connect(
  { name, timeoutMs }: TransportModule,
  factory: TransportFactory,
  options: TransportFactoryContext,
): Promise<Transport> {
  const asked = `Connecting rank ${options.rank} of ${options.size} by --transport ${name}`;
  const fields = { transport: name, size: options.size };
  const isOver = new AbortController();
  const late = delay(timeoutMs, undefined, { signal: isOver.signal }).then(() => {
    throw new CollectiveTimeoutError(
      {
        asked,
        found: `the transport was not there after ${timeoutMs} ms`,
        todo: 'Look whether all ranks find each other through the store, or raise --transport-timeout',
      },
      { ...fields, timeoutMs },
    );
  });
  const made = Promise.resolve(options).then(factory);
  try {
    const transport: unknown = await Promise.race([made, late]);
    return checkTransport(transport, asked, options);
  } catch (cause) {
    // A transport that comes after the time limit must not keep its peers waiting.
    made.then((transport) => transport.close()).catch(() => undefined);
    // An error about a peer names the peer, and an error about a setting the setting.
    if (ShardwiseError.isInstance(cause)) throw cause;
    throw new CollectiveError(
      {
        asked,
        found: `the module threw ${describeError(cause)}`,
        todo: 'Look at the line of the module that the stack shows',
      },
      fields,
      { cause },
    );
  } finally {
    isOver.abort();
    late.catch(() => undefined);
  }
}

function checkTransport(
  made: unknown,
  asked: string,
  { rank, size }: TransportFactoryContext,
): Transport {
  if (isTransport(made) && made.rank === rank && made.size === size) {
    requireVersion(`${asked}, a transport`, made, 1);
    return made;
  }
  const methods = isObject(made) ? METHODS.filter((name) => !isFunction(made[name])) : METHODS;
  const found = !isObject(made)
    ? `the module made ${kindOf(made)}`
    : methods.length > 0
      ? `the transport has no method ${methods.join(', ')}`
      : `the transport says that it is rank ${String(made['rank'])} of ${String(made['size'])}`;
  throw new ConfigError(
    {
      asked,
      found,
      todo: 'Return a Transport of @shardwise/core/spec: specificationVersion, rank, size, send, recv and close',
    },
    { rank, size },
  );
}

const METHODS = ['send', 'recv', 'close'] as const;

function isTransport(value: unknown): value is Transport {
  return isObject(value) && METHODS.every((name) => isFunction(value[name]));
}

function isObject(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null;
}

function isFunction(value: unknown): boolean {
  return typeof value === 'function';
}

function isFactory(value: unknown): value is TransportFactory {
  return typeof value === 'function';
}

function kindOf(value: unknown): string {
  return value === null || value === undefined ? String(value) : `a value of type ${typeof value}`;
}
