import {
  ConfigError,
  messageLengthError,
  peerClosedError,
  type Transport,
} from '@shardwise/core/spec';

/** Creates the transports of a world whose ranks share one thread. Index r is rank r's transport. */
export function connectInProcess(size: number): readonly Transport[] {
  const posts = Array.from({ length: size }, (_, rank) => new Post(rank));
  return posts.map(({ rank }) => endOf(rank, posts));
}

interface Receiver {
  readonly from: number;
  readonly settle: (message: Uint8Array) => void;
  readonly fail: (error: Error) => void;
}

/** The messages that have arrived for a rank, and the receives that wait. */
class Post {
  readonly rank: number;
  /** The error with which the post was closed. Null while it is open. */
  closed: Error | null = null;
  readonly #messages = new Map<string, Uint8Array[]>();
  readonly #receivers = new Map<string, Receiver[]>();

  constructor(rank: number) {
    this.rank = rank;
  }

  put(from: number, tag: number, bytes: Uint8Array): void {
    const key = `${from}/${tag}`;
    const receiver = this.#receivers.get(key)?.shift();
    if (receiver === undefined)
      this.#messages.set(key, [...(this.#messages.get(key) ?? []), bytes]);
    else receiver.settle(bytes);
  }

  take(sender: Post, tag: number): Promise<Uint8Array> {
    const key = `${sender.rank}/${tag}`;
    const message = this.#messages.get(key)?.shift();
    if (message !== undefined) return Promise.resolve(message);
    const closed = this.closed ?? sender.closed;
    if (closed !== null) return Promise.reject(closed);
    return new Promise((settle, fail) => {
      const receiver = { from: sender.rank, settle, fail };
      this.#receivers.set(key, [...(this.#receivers.get(key) ?? []), receiver]);
    });
  }

  close(error: Error): void {
    this.closed ??= error;
    for (const receivers of this.#receivers.values()) {
      for (const { fail } of receivers.splice(0)) fail(error);
    }
  }

  /** A peer has left. All receives from this peer fail. */
  lose(rank: number, error: Error): void {
    for (const [key, receivers] of this.#receivers) {
      const lost = receivers.filter(({ from }) => from === rank);
      const rest = receivers.filter(({ from }) => from !== rank);
      this.#receivers.set(key, rest);
      for (const { fail } of lost) fail(error);
    }
  }
}

function endOf(rank: number, posts: readonly Post[]): Transport {
  const own = postOf(posts, rank);
  return {
    specificationVersion: 1,
    rank,
    size: posts.length,
    send: async (to, tag, bytes) => {
      if (own.closed !== null) throw own.closed;
      postOf(posts, to).put(rank, tag, bytes.slice());
    },
    recv: async (from, tag, bytes) => {
      const message = await own.take(postOf(posts, from), tag);
      const { byteLength } = bytes;
      if (message.byteLength !== byteLength) {
        throw messageLengthError({ rank, peer: from, tag, byteLength }, message.byteLength);
      }
      bytes.set(message);
    },
    close: (reason) => {
      if (own.closed !== null) return;
      const error = peerClosedError(rank, reason);
      own.close(error);
      for (const post of posts) {
        if (reason === undefined) post.lose(rank, error);
        else post.close(error);
      }
    },
  };
}

function postOf(posts: readonly Post[], rank: number): Post {
  const post = posts[rank];
  if (post !== undefined) return post;
  throw new ConfigError(
    {
      asked: `a message of rank ${rank}`,
      found: `${posts.length} ranks`,
      todo: 'Name a rank of the world',
    },
    { rank },
  );
}
