// A transport over sockets. Each two ranks share one connection.
import { createHmac, timingSafeEqual } from 'node:crypto';
import { once } from 'node:events';
import { connect, createServer, type Socket } from 'node:net';
import {
  abortCauseOf,
  abortedByError,
  messageLengthError,
  peerClosedError,
  peerLostError,
  type Transport,
  type TransportFactory,
} from '@shardwise/core/spec';

const HEADER_BYTES = 16;
/** The tags of the frames with which a rank leaves, and with which it closes the transport for a reason. */
const [LEAVES, CLOSES] = [-1, -2];

/** Connects this rank with all others: with lower ranks by their addresses in the store, with higher ones as they come. */
const connectRank: TransportFactory = async ({ rank, size, host, store, secret, timeoutMs }) => {
  const peers = new Map<number, Peer>();
  const connected = Promise.withResolvers<void>();
  const proof = (from: number, to: number): Buffer =>
    createHmac('sha256', secret).update(`${from} to ${to}`).digest();
  const add = (peer: number, socket: Socket, frames: AsyncIterator<Frame>): void => {
    peers.set(peer, new Peer(peer, socket, frames));
    if (peers.size === size - 1) connected.resolve();
  };
  const accept = async (socket: Socket): Promise<void> => {
    const frames = framesOf(socket);
    const { value: greeting } = await frames.next();
    const from = greeting?.tag ?? -1;
    const isPeer = greeting?.bytes.length === 32 && from > rank && from < size && !peers.has(from);
    if (isPeer && timingSafeEqual(greeting.bytes, proof(from, rank))) add(from, socket, frames);
    else socket.destroy();
  };
  const server = createServer((socket) => void accept(socket).catch(() => socket.destroy()));
  await once(server.listen(0, host), 'listening');
  try {
    const place = JSON.stringify({ ...Object(server.address()), host });
    await store.set(`rank ${rank}`, new TextEncoder().encode(place));
    for (let peer = 0; peer < rank; peer += 1) {
      const address = await store.get(`rank ${peer}`, { timeoutMs });
      const socket = connect(JSON.parse(new TextDecoder().decode(address)));
      await once(socket, 'connect');
      socket.write(frame(rank, proof(rank, peer)));
      add(peer, socket, framesOf(socket));
    }
    if (size > 1) await connected.promise;
  } finally {
    server.close();
  }
  return transportOf(rank, size, peers);
};
export default connectRank;

function transportOf(rank: number, size: number, peers: ReadonlyMap<number, Peer>): Transport {
  let closed: Error | undefined;
  const peerAt = (peer: number): Peer => {
    const found = peers.get(peer);
    if (closed !== undefined) throw closed;
    if (found === undefined) throw new RangeError(`rank ${rank} has no peer ${peer}`);
    return found;
  };
  const closeWith = (error: Error, last: Buffer): void => {
    if (closed !== undefined) return;
    closed = error;
    for (const peer of peers.values()) peer.close(error, last);
  };
  // One peer that is lost, or that closes for a reason, ends the calls with all peers.
  for (const peer of peers.values()) {
    void peer.failed.then((error) => closeWith(error, closing(error, rank)));
  }
  return {
    specificationVersion: 1,
    rank,
    size,
    send: async (to, tag, bytes) => peerAt(to).send(frame(tag, bytes)),
    recv: async (from, tag, bytes) => {
      const message = await peerAt(from).take(tag);
      const expected = { rank, peer: from, tag, byteLength: bytes.byteLength };
      if (message.length !== bytes.length) throw messageLengthError(expected, message.length);
      bytes.set(message);
    },
    close: (reason) =>
      closeWith(
        peerClosedError(rank, reason),
        reason === undefined ? frame(LEAVES, new Uint8Array(0)) : closing(reason, rank),
      ),
  };
}

interface Receiver {
  readonly resolve: (message: Buffer) => void;
  readonly reject: (error: Error) => void;
}

/** The connection with one rank: messages that nobody has received yet, and receives that wait for theirs. */
class Peer {
  /** Settles with the reason for which the whole transport is to close. */
  readonly failed: Promise<Error>;
  readonly #socket: Socket;
  readonly #messages = new Map<number, Buffer[]>();
  readonly #receivers = new Map<number, Receiver[]>();
  #ended: Error | undefined;

  constructor(rank: number, socket: Socket, frames: AsyncIterator<Frame>) {
    this.#socket = socket.setNoDelay();
    this.failed = this.#follow(rank, frames);
  }

  send(bytes: Buffer): Promise<void> {
    if (this.#ended !== undefined) return Promise.reject(this.#ended);
    return new Promise((resolve, reject) => {
      this.#socket.write(bytes, (error) => (error ? reject(this.#ended ?? error) : resolve()));
    });
  }

  take(tag: number): Promise<Buffer> {
    const message = this.#messages.get(tag)?.shift();
    if (message !== undefined) return Promise.resolve(message);
    if (this.#ended !== undefined) return Promise.reject(this.#ended);
    return new Promise((resolve, reject) => {
      this.#receivers.set(tag, [...(this.#receivers.get(tag) ?? []), { resolve, reject }]);
    });
  }

  close(error: Error, last: Buffer): void {
    this.#end(error);
    this.#socket.end(last, () => this.#socket.unref());
  }

  async #follow(rank: number, frames: AsyncIterator<Frame>): Promise<Error> {
    try {
      for (let next = await frames.next(); next.done !== true; next = await frames.next()) {
        const { tag, bytes } = next.value;
        if (tag === CLOSES) return this.#end(abortedByError(JSON.parse(bytes.toString())));
        if (tag === LEAVES) this.#end(peerClosedError(rank, undefined));
        else this.#deliver(tag, bytes);
      }
    } catch {
      // The connection is lost.
    }
    if (this.#ended === undefined) return this.#end(peerLostError(rank, 'its connection ended'));
    return new Promise(() => undefined);
  }

  #deliver(tag: number, bytes: Buffer): void {
    const receiver = this.#receivers.get(tag)?.shift();
    if (receiver !== undefined) receiver.resolve(bytes);
    else this.#messages.set(tag, [...(this.#messages.get(tag) ?? []), bytes]);
  }

  #end(error: Error): Error {
    this.#ended ??= error;
    for (const receivers of this.#receivers.values()) {
      for (const { reject } of receivers.splice(0)) reject(error);
    }
    return error;
  }
}

interface Frame {
  readonly tag: number;
  readonly bytes: Buffer;
}

function frame(tag: number, bytes: Uint8Array): Buffer {
  const header = Buffer.alloc(HEADER_BYTES);
  header.writeDoubleBE(tag, 0);
  header.writeDoubleBE(bytes.byteLength, 8);
  return Buffer.concat([header, bytes]);
}

function closing(reason: Error, rank: number): Buffer {
  return frame(CLOSES, Buffer.from(JSON.stringify(abortCauseOf(reason, rank))));
}

async function* framesOf(socket: Socket): AsyncGenerator<Frame, undefined> {
  let chunks: Buffer[] = [];
  let [found, needed] = [0, HEADER_BYTES];
  for await (const chunk of socket) {
    chunks.push(chunk);
    found += chunk.length;
    if (found < needed) continue;
    let rest = Buffer.concat(chunks);
    for (;;) {
      needed = HEADER_BYTES + (rest.length < HEADER_BYTES ? 0 : rest.readDoubleBE(8));
      if (rest.length < Math.max(needed, HEADER_BYTES)) break;
      yield { tag: rest.readDoubleBE(0), bytes: rest.subarray(HEADER_BYTES, needed) };
      rest = rest.subarray(needed);
    }
    [chunks, found] = [[rest], rest.length];
  }
}
