import { connectStore, startStoreServer, type Server } from '@shardwise/collectives/node';
import { ConfigError, ShardwiseError, type Store } from '@shardwise/core/extend';
import { addressTowards } from './node-address.ts';

export interface OpenStoreOptions {
  readonly host: string;
  readonly port: number;
  readonly secret: string;
  /** The name of the job. It lets two jobs on one port notice each other. */
  readonly jobId: string;
  /**
   * The place of this host. Place 0 serves the store, and other places do not. If undefined, the first host serves it.
   */
  readonly place: number | undefined;
  readonly timeoutMs: number;
}

/** A run's store, as one host has it. */
export interface OpenedStore {
  readonly store: Store;
  /** The address at which all hosts reach the store. */
  readonly host: string;
  readonly port: number;
  /** The server. Undefined on hosts that do not serve the store. */
  readonly server: Server | undefined;
  /** The address at which the other hosts reach this host. */
  readonly address: string;
}

const JOB_KEY = 'job';

/** Serves the store of a run, or connects to it. Throws ConfigError and CollectiveError. */
export async function openStore(options: OpenStoreOptions): Promise<OpenedStore> {
  const { host, port, secret, jobId, place, timeoutMs } = options;
  const server = place === undefined || place === 0 ? await serve(options) : undefined;
  const at = server === undefined ? { host, port } : { host: server.host, port: server.port };
  let store: Store | undefined;
  try {
    store = await connectStore({ ...at, secret, timeoutMs });
    const own = new TextEncoder().encode(jobId);
    if (server !== undefined) await store.set(JOB_KEY, own);
    const found = new TextDecoder().decode(await store.get(JOB_KEY, { timeoutMs }));
    if (found !== jobId) throw otherJobError(options, found);
    const address = server === undefined ? await addressTowards(host, port) : server.host;
    return { store, ...at, host, server, address };
  } catch (error) {
    store?.close();
    server?.close();
    throw error;
  }
}

/** Serves the store. Returns undefined if another host, or another process of this host, has to serve it. */
async function serve({ host, port, secret, place }: OpenStoreOptions): Promise<Server | undefined> {
  try {
    return await startStoreServer({ host, port, secret });
  } catch (error) {
    if (place === undefined && isElsewhere(error)) return undefined;
    throw error;
  }
}

/** Whether the port is taken, or the address does not belong to this host. */
function isElsewhere(error: unknown): boolean {
  return (
    ShardwiseError.isInstance(error) &&
    ['EADDRINUSE', 'EADDRNOTAVAIL'].some((code) => error.fields['code'] === code)
  );
}

function otherJobError({ host, port, jobId }: OpenStoreOptions, found: string): ConfigError {
  const other = found.slice(0, 100);
  return new ConfigError(
    {
      asked: `Joining job "${jobId}" at ${host}:${port}`,
      found: `job "${other}" runs there`,
      todo: 'Give each job its own port with --rdzv, or its hosts the same --rdzv-id',
    },
    { host, port, jobId, found: other },
  );
}
