import { type ChildProcess, fork } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { mkdir, readdir, rm } from 'node:fs/promises';
import { join, resolve } from 'node:path';
import { ConfigError } from '@shardwise/core/extend';
import { rankProcessOptions } from '@shardwise/core/node';
import type { ShardStatistics } from '@shardwise/parameter-server';
import type { ServersData } from '../ranks/rank-data.ts';
import { copySparse } from './copy-sparse.ts';
import { requireServers, serversDirectory, snapshotName } from './left-by-servers.ts';
import { parseServerMessage, type ServerStart, type ToServer } from './server-message.ts';

const HOST = '127.0.0.1';
/** How long a server may take to end after it has been asked to. */
const STOP_MS = 5000;
/** How often one server is started. */
const MAX_STARTS = 100;

export interface ServerProcessesOptions {
  readonly count: number;
  /** Whether the following server keeps a copy of the data of each server. */
  readonly areReplicated: boolean;
  readonly runDirectory: string;
  /** The least time between two snapshots of a server. */
  readonly snapshotEveryMs: number;
  /** The directory that servers of an earlier run have left, to continue from. Undefined if the servers begin anew. */
  readonly resume: string | undefined;
  readonly environment: NodeJS.ProcessEnv;
  readonly onNotice: (text: string) => void;
}

interface Started {
  readonly child: ChildProcess;
  readonly port: number;
}

/**
 * The parameter servers of a run, each of which is a process. They outlive the generations of the ranks, and start again
 * when they are lost.
 */
export class ServerProcesses {
  readonly data: ServersData;
  readonly #options: ServerProcessesOptions;
  readonly #children: ChildProcess[];
  #isStopping = false;

  private constructor(
    options: ServerProcessesOptions,
    data: ServersData,
    children: ChildProcess[],
  ) {
    this.#options = options;
    this.data = data;
    this.#children = children;
    children.forEach((child, server) => this.#watch(child, server, 1));
  }

  /** Starts the servers. Throws ConfigError if one does not start. */
  static async start(options: ServerProcessesOptions): Promise<ServerProcesses> {
    const secret = randomBytes(32).toString('hex');
    await prepareDirectory(options);
    const started: Started[] = [];
    try {
      for (let server = 0; server < options.count; server++) {
        const own = { server, port: 0, secret, isAgain: false };
        started.push(await startServer(options, own));
      }
    } catch (error) {
      for (const { child } of started) child.kill('SIGKILL');
      throw error;
    }
    const addresses = started.map(({ port }) => ({ host: HOST, port }));
    const children = started.map(({ child }) => child);
    for (const child of children) child.send({ kind: 'peers', addresses } satisfies ToServer);
    const { areReplicated } = options;
    return new ServerProcesses(options, { addresses, secret, areReplicated }, children);
  }

  /** Ends the servers and returns their statistics. They are undefined for a server that did not answer. */
  async stop(): Promise<readonly (ShardStatistics | undefined)[]> {
    this.#isStopping = true;
    return Promise.all(this.#children.map(stopServer));
  }

  #watch(child: ChildProcess, server: number, starts: number): void {
    child.once('exit', () => void this.#again(server, starts));
  }

  async #again(server: number, starts: number): Promise<void> {
    const address = this.data.addresses[server];
    if (this.#isStopping || address === undefined) return;
    const { onNotice } = this.#options;
    onNotice(
      `Parameter server ${server} was lost${starts < MAX_STARTS ? ', and starts again' : ''}`,
    );
    if (starts >= MAX_STARTS) return;
    const { port } = address;
    const { addresses, secret } = this.data;
    try {
      const own = { server, port, secret, isAgain: true };
      const { child } = await startServer(this.#options, own);
      child.send({ kind: 'peers', addresses } satisfies ToServer);
      this.#children[server] = child;
      if (this.#isStopping) child.kill('SIGKILL');
      else this.#watch(child, server, starts + 1);
    } catch (error) {
      onNotice(error instanceof Error ? error.message : String(error));
    }
  }
}

/**
 * Prepares the directory of the servers. Throws ConfigError if the data to continue from belongs to another number of
 * servers.
 */
async function prepareDirectory(options: ServerProcessesOptions): Promise<void> {
  const { resume, count } = options;
  const own = directoryOf(options);
  if (resume !== undefined) await requireServers(resume, count);
  if (resume !== undefined && resolve(resume) === resolve(own)) return;
  // Data that an earlier run left in the same directory does not belong to this run.
  await rm(own, { recursive: true, force: true });
  await mkdir(own, { recursive: true });
  if (resume === undefined) return;
  for (const file of await readdir(resume)) {
    if (!file.endsWith('.next')) await copySparse(join(resume, file), join(own, file));
  }
}

const directoryOf = ({ runDirectory }: ServerProcessesOptions): string =>
  serversDirectory(runDirectory);

async function startServer(
  options: ServerProcessesOptions,
  own: Pick<ServerStart, 'server' | 'port' | 'secret' | 'isAgain'>,
): Promise<Started> {
  const extension = import.meta.url.endsWith('.ts') ? 'ts' : 'js';
  const child = fork(new URL(`./server-process.${extension}`, import.meta.url), [], {
    env: options.environment,
    execArgv: [...rankProcessOptions, ...process.execArgv],
    stdio: ['ignore', 'inherit', 'inherit', 'ipc'],
    // In a process group of its own the server gets no Ctrl-C. The launcher gets it.
    detached: process.platform !== 'win32',
  });
  const ended = once(child, 'exit').then(() => undefined);
  const said = once(child, 'message');
  const start: ServerStart = {
    kind: 'start',
    ...own,
    servers: options.count,
    areReplicated: options.areReplicated,
    host: HOST,
    snapshotEveryMs: options.snapshotEveryMs,
    resumes: options.resume !== undefined && !own.isAgain,
    snapshotPath: join(directoryOf(options), snapshotName(own.server)),
  };
  child.send(start satisfies ToServer);
  const first = await Promise.race([said.then(([value]: readonly unknown[]) => value), ended]);
  const message = parseServerMessage(first);
  if (message?.kind === 'listening') return { child, port: message.port };
  child.kill('SIGKILL');
  const reason = message?.kind === 'failed' ? message.reason : 'it ended';
  throw new ConfigError({
    asked: `parameter server ${own.server}`,
    found: `its process did not start: ${reason}`,
    todo: 'Look at its output',
  });
}

async function stopServer(child: ChildProcess): Promise<ShardStatistics | undefined> {
  if (!child.connected) return undefined;
  let statistics: ShardStatistics | undefined;
  child.on('message', (value: unknown) => {
    const message = parseServerMessage(value);
    if (message?.kind === 'stopped') ({ statistics } = message);
  });
  const ended = once(child, 'exit');
  child.send({ kind: 'stop' } satisfies ToServer);
  const timer = setTimeout(() => child.kill('SIGKILL'), STOP_MS);
  await ended;
  clearTimeout(timer);
  return statistics;
}
