import type { Socket } from 'node:net';
import { checkOptions } from '@shardwise/core/base';
import { ShardwiseError } from '@shardwise/core/spec';
import { encodeFrame } from '../wire/frame-header.ts';
import type { Frame } from '../wire/frame-parser.ts';
import { serveFrames } from '../wire/serve-frames.ts';
import { serverRules, type Server, type ServerOptions } from '../wire/server-options.ts';
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

export type { Server, ServerOptions };

/** The number of calls of one client that may wait for keys. */
const MAX_PENDING = 1024;
/** The length in bytes of replies that a client may leave unread. */
const MAX_UNREAD_BYTES = 16 << 20;

/**
 * Serves a job's store to all its processes, which use connectStore. Rejects with ConfigError if the address is
 * in use or does not belong to this host.
 */
export async function startStoreServer(options: ServerOptions): Promise<Server> {
  checkOptions('startStoreServer', options, serverRules);
  const store = new MemoryStore();
  const server = await serveFrames(options, {
    purpose: 'store',
    limits: requestLimits,
    open: (socket) => answerCalls(socket, store),
  });
  return {
    host: server.host,
    port: server.port,
    close: () => {
      store.close();
      server.close();
    },
  };
}

function answerCalls(socket: Socket, store: MemoryStore): (frame: Frame) => void {
  const pending = new Map<number, AbortController>();
  socket.on('close', () => {
    for (const controller of pending.values()) controller.abort();
  });
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
  return ({ kind, tag, body }) => {
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
