import type { CallOptions } from '@shardwise/core/spec';
import type { SharedMemoryGroup } from '../../shared-memory/shared-memory-group.ts';

/**
 * The number of messages of one receiver and tag that are in the shared memory at a time. When one of them has been
 * taken, the next one is already there.
 */
const AHEAD = 2;

interface WaitingSends {
  pending: number;
  readonly waiting: (() => void)[];
}

/**
 * Sends messages to ranks of this host, few at a time. A sender has few places for messages in the shared memory.
 * Messages that nobody takes would fill them, and then the message for which their receiver waits first could not get
 * in. So only a few messages of one receiver and tag are there at a time, and the others wait here, in order.
 */
export class LocalSends {
  readonly #group: SharedMemoryGroup;
  readonly #waitingSends = new Map<string, WaitingSends>();

  constructor(group: SharedMemoryGroup) {
    this.#group = group;
  }

  async send(to: number, tag: number, bytes: Uint8Array, options?: CallOptions): Promise<void> {
    const key = `${to}:${tag}`;
    const sends = this.#waitingSends.get(key) ?? { pending: 0, waiting: [] };
    this.#waitingSends.set(key, sends);
    if (sends.pending === AHEAD) await new Promise<void>((go) => sends.waiting.push(go));
    else sends.pending += 1;
    try {
      await this.#group.sendBytes(to, tag, bytes, options);
    } finally {
      // A message that waits takes this one's place.
      const next = sends.waiting.shift();
      if (next !== undefined) next();
      else sends.pending -= 1;
      if (sends.pending === 0) this.#waitingSends.delete(key);
    }
  }
}
