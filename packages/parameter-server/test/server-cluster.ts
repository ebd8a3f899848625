import { CollectiveError, type RequestConnection } from '@shardwise/core/extend';
import type { ParameterServers } from '@shardwise/parameter-server';
import {
  createParameterServer,
  type ParameterServer,
  type SnapshotStore,
} from '@shardwise/parameter-server';
import { ShardLink } from '../src/client/shard-link.ts';
import type { ServedJob } from '../src/protocol/job.ts';
import { optimizers } from './direct-servers.ts';

interface Running {
  readonly server: ParameterServer;
  readonly killed: AbortController;
}

/** Servers in this thread that can be killed. Nothing that a killed server was doing has an effect any more. */
export class ServerCluster {
  readonly #size: number;
  readonly #areReplicated: boolean;
  readonly #snapshots: SnapshotStore | undefined;
  readonly #running: (Running | undefined)[] = [];
  #clients = 0;

  constructor(size: number, areReplicated: boolean, snapshots?: SnapshotStore) {
    this.#size = size;
    this.#areReplicated = areReplicated;
    this.#snapshots = snapshots;
  }

  /** Starts a server. `true` means that it replaces a lost server, and 'resumes' that it continues an earlier run. */
  async start(server: number, how: boolean | 'resumes' = false): Promise<void> {
    const killed = new AbortController();
    const made = await createParameterServer({
      server,
      servers: this.#size,
      optimizers,
      isAgain: how === true,
      resumes: how === 'resumes',
      snapshotEveryMs: 0,
      ...(this.#snapshots && { snapshots: this.#snapshots }),
      ...(this.#areReplicated && {
        connect: (other: number) => this.#connect(other, killed.signal),
      }),
    });
    this.#running[server] = { server: made, killed };
  }

  kill(server: number): void {
    this.#running[server]?.killed.abort();
    this.#running[server] = undefined;
  }

  /** Whether another server currently has a copy of the range. */
  isReplicated(server: number): boolean {
    return this.#running[server]?.server.statistics.isReplicated ?? false;
  }

  get servers(): ParameterServers {
    return {
      size: this.#size,
      areReplicated: this.#areReplicated,
      connect: (server) => this.#connect(server),
      whenClosed: () => undefined,
    };
  }

  /** Connects to a server. `from` is aborted when the server that connects is killed. */
  async #connect(server: number, from?: AbortSignal): Promise<RequestConnection> {
    const address = `server ${server}`;
    const lost = (): CollectiveError =>
      new CollectiveError({ asked: 'a request', found: 'lost', todo: 'Again' }, { lost: address });
    const running = this.#running[server];
    if (running === undefined || from?.aborted === true) throw lost();
    const closed = new AbortController();
    const ended = AbortSignal.any([running.killed.signal, closed.signal, ...(from ? [from] : [])]);
    const client = { number: this.#clients++, closed: ended };
    return {
      address,
      request: async (parts, read, { onSent } = {}) => {
        onSent?.();
        if (ended.aborted) throw lost();
        const gone = new Promise<never>((_, reject) => {
          ended.addEventListener('abort', () => reject(lost()), { once: true });
        });
        const copies = parts.map((part) => part.slice());
        const answer = running.server.handler(copies, client);
        answer.catch(() => undefined);
        return read(await Promise.race([answer, gone]));
      },
      close: () => closed.abort(),
    };
  }
}

const recipe = { optimizer: 'SGD', groups: [{ params: [0], settings: { lr: 1 } }] };

/** A worker with one parameter of one element, in one range. */
export function oneElementWorker(
  servers: ParameterServers,
  shard: number,
  worker: number,
  job: Omit<ServedJob, 'parameters'>,
  timeoutMs = 3000,
): {
  readonly link: ShardLink;
  readonly begin: () => Promise<void>;
  readonly push: (gradient: number) => Promise<number>;
} {
  const parameters = [{ name: 'w', shape: [1] }];
  const link = new ShardLink({
    servers,
    shard,
    worker,
    job: { ...job, parameters },
    timeoutMs,
  });
  const bytes = (value: number): Uint8Array => new Uint8Array(Float32Array.of(value).buffer);
  return {
    link,
    begin: async () => {
      await link.join();
      if (worker === 0) await link.initialise([bytes(0)]);
    },
    push: async (gradient) => {
      await link.push({ recipe, present: [true], dtype: 'f32' }, [bytes(gradient)]);
      return link.pull([0], ([value = new Uint8Array(4)]) => {
        return new Float32Array(value.slice().buffer)[0] ?? Number.NaN;
      });
    },
  };
}
