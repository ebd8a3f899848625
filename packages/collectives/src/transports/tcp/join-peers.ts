import type { Socket } from 'node:net';
import { networkInterfaces } from 'node:os';
import { setTimeout as delay } from 'node:timers/promises';
import {
  type CollectiveError,
  CollectiveTimeoutError,
  ConfigError,
  ShardwiseError,
  type Store,
} from '@shardwise/core/spec';
import { connectPeer } from '../../wire/connect.ts';
import type { Hello } from '../../wire/hello.ts';
import { listenForPeers } from '../../wire/listen.ts';
import type { WatchedTransport } from '../watched-transport.ts';
import type { HeartbeatTimes } from './heartbeat-monitor.ts';
import { startHeartbeats } from './heartbeat-sender.ts';
import { TcpEnd } from './tcp-end.ts';
import { protocolError } from '../../wire/wire-error.ts';

export interface JoinOptions {
  readonly store: Store;
  readonly rank: number;
  readonly size: number;
  /** The other ranks with which this one connects. */
  readonly peers: readonly number[];
  readonly epoch: number;
  readonly secret: string;
  readonly host: string;
  readonly advertisedHost: string | undefined;
  readonly encrypt: boolean;
  readonly timeoutMs: number;
  readonly withdrawAddress: boolean;
  readonly signal: AbortSignal | undefined;
  /** Null: none are sent. */
  readonly heartbeat: HeartbeatTimes | null;
  readonly maxUnexpectedBytes: number;
}

/**
 * Joins the ranks of a job: each rank listens, tells its address through the store, and connects to its peers.
 */
export async function joinPeers(options: JoinOptions): Promise<WatchedTransport> {
  const { rank, size, epoch, secret, encrypt, timeoutMs, signal, heartbeat } = options;
  signal?.throwIfAborted();
  const end = new TcpEnd(options);
  const whole = Promise.withResolvers<void>();
  const heard = Promise.withResolvers<void>();
  const late = Promise.withResolvers<never>();
  // If nobody awaits this yet, the store's own time limit ends the wait, and names fewer ranks.
  late.promise.catch(() => {});
  const accepted = (socket: Socket, hello: Hello, rest: Uint8Array): void => {
    end.accept(hello, socket, rest);
    if (end.missing().length === 0) whole.resolve();
  };
  const listener = await listenForPeers({
    host: options.host,
    port: 0,
    secret,
    encrypt,
    maxConnections: 2 * size + SPARE_CONNECTIONS,
    refusal: (hello) => refusalOf(hello, options) ?? end.refusal(hello),
    accepted,
  });
  const host = options.advertisedHost ?? reachableHost(options.host);
  const deadline = performance.now() + timeoutMs;
  const leftMs = (): number => Math.max(deadline - performance.now(), 1);
  const timer = setTimeout(() => {
    late.reject(joinTimeoutError(rank, end.missing(), timeoutMs));
  }, timeoutMs);
  const giveUp = (): void => late.reject(signal?.reason);
  signal?.addEventListener('abort', giveUp);
  if (signal?.aborted === true) giveUp();
  const told = tellAddress(options, { host, port: listener.port });
  try {
    await Promise.race([told, late.promise]);
    const learnt = learnAddresses(options, end.peers, deadline);
    const addresses = await Promise.race([learnt, late.promise]);
    const targets = addresses.map(({ peer, address }) => ({ peer, ...address }));
    const helloTo = (purpose: Hello['purpose'], peer: number): Hello => ({
      purpose,
      from: rank,
      to: peer,
      size,
      epoch,
    });
    const connected = targets.map(async ({ peer, ...address }) => {
      const link = end.link(peer);
      const hello = helloTo('messages', peer);
      const at = { ...address, secret, hello, encrypt, timeoutMs: leftMs() };
      link.attachIncoming(await connectPeer(at, link.reader));
      if (end.missing().length === 0) whole.resolve();
    });
    if (end.peers.length > 0 && heartbeat !== null) {
      const task = {
        targets: targets.map(({ peer, ...address }) => ({
          ...address,
          hello: helloTo('heartbeat', peer),
        })),
        secret,
        encrypt,
        intervalMs: heartbeat.intervalMs,
        timeoutMs: leftMs(),
      };
      end.onEnd(startHeartbeats(task, heard.resolve, heard.reject));
    } else {
      heard.resolve();
      if (end.peers.length === 0) whole.resolve();
    }
    const joined = Promise.all([...connected, whole.promise, heard.promise]);
    await Promise.race([joined, end.ended, late.promise]);
    end.start();
    return end;
  } catch (error) {
    const reason = error instanceof Error ? error : new Error(String(error));
    end.close(reason);
    throw reason;
  } finally {
    clearTimeout(timer);
    signal?.removeEventListener('abort', giveUp);
    listener.close();
    // Either every peer has connected to it, or nobody can any more.
    if (options.withdrawAddress) await withdrawAddress(options, told);
  }
}

/** How many connections may be in their handshakes in addition to those of the ranks. */
const SPARE_CONNECTIONS = 64;
const WITHDRAW_MS = 1000;

function refusalOf(
  { purpose, to, from, size, epoch }: Hello,
  own: JoinOptions,
): string | undefined {
  if (purpose === 'store') return `this port is that of rank ${own.rank}, not a store's`;
  if (epoch !== own.epoch) {
    return `it is of epoch ${epoch}, and rank ${own.rank} of epoch ${own.epoch}`;
  }
  if (size !== own.size) return `its world has ${size} ranks, that of rank ${own.rank} ${own.size}`;
  if (to !== own.rank) return `it looks for rank ${to}, and this is rank ${own.rank}`;
  if (!own.peers.includes(from)) return `rank ${from} is no peer of rank ${to}`;
  return undefined;
}

async function tellAddress(
  { store, epoch, rank }: JoinOptions,
  address: RankAddress,
): Promise<void> {
  const own = encodeAddress(address);
  const kept = await store.compareSet(addressKey(epoch, rank), undefined, own);
  if (Buffer.compare(kept, own) === 0) return;
  const { host, port } = decodeAddress(kept);
  throw alreadyJoinedError(rank, epoch, `${host}:${port}`);
}

/** Deletes the address that this rank has told. It does not wait for a store that does not answer. */
async function withdrawAddress(
  { store, epoch, rank }: JoinOptions,
  told: Promise<void>,
): Promise<void> {
  // What was not told is not deleted: the key has the address of another process.
  const withdrawn = told.then(() => store.delete(addressKey(epoch, rank)));
  const limit = new AbortController();
  const { signal } = limit;
  const late = delay(WITHDRAW_MS, undefined, { signal });
  // If the store has ended, so has the address.
  await Promise.race([withdrawn, late]).catch(() => undefined);
  limit.abort();
  await late.catch(() => undefined);
}

async function learnAddresses(
  { store, epoch, rank, timeoutMs }: JoinOptions,
  peers: readonly number[],
  deadline: number,
): Promise<readonly { readonly peer: number; readonly address: RankAddress }[]> {
  const options = { timeoutMs: Math.max(deadline - performance.now(), 1) };
  const answers = await Promise.allSettled(
    peers.map((peer) => store.get(addressKey(epoch, peer), options)),
  );
  const late: number[] = [];
  const addresses = peers.flatMap((peer, index) => {
    const answer = answers[index];
    if (answer?.status === 'fulfilled') return [{ peer, address: decodeAddress(answer.value) }];
    if (!isTimeout(answer?.reason)) throw answer?.reason;
    late.push(peer);
    return [];
  });
  if (late.length > 0) throw joinTimeoutError(rank, late, timeoutMs);
  return addresses;
}

function isTimeout(error: unknown): boolean {
  return ShardwiseError.isInstance(error) && error.code === 'COLLECTIVE_TIMEOUT';
}

function joinTimeoutError(
  rank: number,
  missing: readonly number[],
  timeoutMs: number,
): CollectiveError {
  const who = `${missing.length === 1 ? 'rank' : 'ranks'} ${missing.join(', ')}`;
  return new CollectiveTimeoutError(
    {
      asked: `Joining the tcp transport on rank ${rank}`,
      found: `${who} did not join within ${timeoutMs} ms`,
      todo: 'Check that they run with the same store, size and epoch, and that their hosts are reachable',
    },
    { rank, missing, timeoutMs },
  );
}

function alreadyJoinedError(rank: number, epoch: number, address: string): ConfigError {
  return new ConfigError(
    {
      asked: `Joining the tcp transport as rank ${rank} of epoch ${epoch}`,
      found: `a process at ${address} is that rank already`,
      todo: 'Give each process its own rank, each start its own epoch, and each job its own store',
    },
    { rank, epoch, address },
  );
}

/** Where a rank listens. It is told to the other ranks as `host port`. */
export interface RankAddress {
  readonly host: string;
  readonly port: number;
}

function addressKey(epoch: number, rank: number): string {
  return `tcp/${epoch}/address/${rank}`;
}

function encodeAddress({ host, port }: RankAddress): Uint8Array {
  return new TextEncoder().encode(`${host} ${port}`);
}

/** Throws CollectiveError for bytes that are no address. */
export function decodeAddress(bytes: Uint8Array): RankAddress {
  const text = new TextDecoder().decode(bytes.subarray(0, 300));
  const match = /^([\w.:%-]{1,255}) (\d{1,5})$/.exec(text);
  const [, host, digits] = match ?? [];
  const port = Number(digits);
  if (host !== undefined && port > 0 && port < 65_536) return { host, port };
  throw protocolError('the store holds no address of a rank where one should be');
}

/** The address by which others reach a host that listens on all its addresses. */
function reachableHost(host: string): string {
  if (host !== '0.0.0.0' && host !== '::') return host;
  const addresses = Object.values(networkInterfaces()).flatMap((list) => list ?? []);
  const outside = addresses.find(({ internal, family }) => !internal && family === 'IPv4');
  return outside?.address ?? '127.0.0.1';
}
