import type { Socket } from 'node:net';
import { checkOptions, option, type OptionRules, ShardwiseError } from '@shardwise/core/spec';
import { encodeFrame } from '../wire/frame-header.ts';
import { FrameParser, type Frame } from '../wire/frame-parser.ts';
import { listenForPeers } from '../wire/listen.ts';
import { protocolError } from '../wire/wire-error.ts';
import { MemoryStore } from './memory-store.ts';
import {
  decodeParts,
  decodeText,
  encodeParts,
  encodeText,
  replyKinds,
  requestLimits,
  requestName,
  type RequestName,
} from './store-message.ts';

const MAX_CONNECTIONS = 4096;
/** The number of calls of one client that may wait for keys. */
const MAX_PENDING = 1024;
/** The length in bytes of replies that a client may leave unread. */
const MAX_UNREAD_BYTES = 16 << 20;

export interface StoreServerOptions {
  /** The address to listen on. Default: 127.0.0.1, which only processes of this host reach. */
  readonly host?: string;
  /** Default: 0, which means a free port. */
  readonly port?: number;
  /** Whoever has the secret may read and write. */
  readonly secret: string;
  /** Whether all traffic is encrypted (TLS with the secret as key). Default: false. */
  readonly encrypt?: boolean;
}

const serverRules: OptionRules<StoreServerOptions> = {
  host: option.nonEmptyText,
  port: option.integer(0, 65_535),
  secret: option.required(option.nonEmptyText),
  encrypt: option.flag,
};

export interface StoreServer {
  readonly host: string;
  readonly port: number;
  /** Ends the store, and every call that is pending on its clients. */
  close(): void;
}

/**
 * Serves a job's store to all its processes, which use connectStore. Rejects with ConfigError where the address
 * is taken or is not one of this host.
 */
export async function startStoreServer(options: StoreServerOptions): Promise<StoreServer> {
  checkOptions('startStoreServer', options, serverRules);
  const { host = '127.0.0.1', port = 0, secret, encrypt = false } = options;
  const store = new MemoryStore();
  const clients = new Set<Socket>();
  const listener = await listenForPeers({
    host,
    port,
    secret,
    encrypt,
    maxConnections: MAX_CONNECTIONS,
    refusal: ({ purpose }) =>
      purpose === 'store' ? undefined : `this port is a store's, not one for ${purpose}`,
    accepted: (socket, _, rest) => {
      clients.add(socket);
      socket.once('close', () => clients.delete(socket));
      serve(socket, store, rest);
    },
  });
  return {
    host: listener.host,
    port: listener.port,
    close: () => {
      listener.close();
      store.close();
      for (const socket of clients) socket.destroy();
    },
  };
}

function serve(socket: Socket, store: MemoryStore, rest: Uint8Array): void {
  const parser = new FrameParser(requestLimits);
  const pending = new Map<number, AbortController>();
  const answer = async (name: Call, tag: number, body: Uint8Array): Promise<void> => {
    const controller = new AbortController();
    pending.set(tag, controller);
    const reply = await replyOf(store, name, body, controller.signal);
    pending.delete(tag);
    if (socket.destroyed) return;
    socket.write(encodeFrame(reply.kind, tag, encodeParts(reply.parts)));
    if (socket.writableLength > MAX_UNREAD_BYTES) {
      socket.destroy(protocolError('its replies are not read'));
    }
  };
  const take = ({ kind, tag, body }: Frame): void => {
    const name = requestName(kind);
    if (name === 'cancel') {
      pending.get(tag)?.abort();
      return;
    }
    if (name === undefined || pending.has(tag) || pending.size >= MAX_PENDING) {
      throw protocolError(`call ${tag} is one too many`);
    }
    void answer(name, tag, body);
  };
  const receive = (bytes: Uint8Array): void => {
    try {
      for (const frame of parser.push(bytes)) take(frame);
    } catch {
      socket.destroy();
    }
  };
  socket.on('data', receive);
  // Nobody needs to be told when a client closes its connection.
  socket.on('error', () => {});
  socket.on('close', () => {
    for (const controller of pending.values()) controller.abort();
  });
  if (rest.byteLength > 0) receive(rest);
}

type Call = Exclude<RequestName, 'cancel'>;

interface Reply {
  readonly kind: number;
  readonly parts: readonly Uint8Array[];
}

/** The reply to a call. Calls wait here until they are cancelled, because clients watch their own time limits. */
async function replyOf(
  store: MemoryStore,
  name: Call,
  body: Uint8Array,
  signal: AbortSignal,
): Promise<Reply> {
  try {
    const [head = new Uint8Array(0), second = new Uint8Array(0), third] = decodeParts(body);
    const key = decodeText(head);
    const options = { timeoutMs: Infinity, signal };
    const run: Record<Call, () => Promise<readonly Uint8Array[]>> = {
      set: async () => {
        await store.set(key, second);
        return [];
      },
      get: async () => [await store.get(key, options)],
      add: async () => {
        const sum = await store.add(key, Number(decodeText(second)));
        return [encodeText(String(sum))];
      },
      compareSet: async () => [await store.compareSet(key, second, third ?? new Uint8Array(0))],
      setIfAbsent: async () => [await store.compareSet(key, undefined, second)],
      wait: async () => {
        await store.wait(decodeParts(body).map(decodeText), options);
        return [];
      },
      delete: async () => [Uint8Array.of((await store.delete(key)) ? 1 : 0)],
    };
    return { kind: replyKinds.value, parts: await run[name]() };
  } catch (error) {
    const text = ShardwiseError.isInstance(error) ? error.message : 'the server failed';
    return { kind: replyKinds.refused, parts: [encodeText(text)] };
  }
}
