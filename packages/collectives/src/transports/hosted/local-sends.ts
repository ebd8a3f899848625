import type { CallOptions } from '@shardwise/core/spec';
import type { SharedMemoryGroup } from '../../shared-memory/shared-memory-group.ts';

/** Enough that the next message lies ready when one has been taken. */
const AHEAD = 2;

interface Lane {
  pending: number;
  readonly waiting: (() => void)[];
}

/**
 * Messages that nobody takes yet hold one of the few places of their sender in the shared memory.
 * So that they never keep out what their receiver waits for first, only a few of one receiver and
 * tag are there at a time; the rest wait here, in order.
 */
export class LocalSends {
  readonly #group: SharedMemoryGroup;
  readonly #lanes = new Map<string, Lane>();

  constructor(group: SharedMemoryGroup) {
    this.#group = group;
  }

  async send(to: number, tag: number, bytes: Uint8Array, options?: CallOptions): Promise<void> {
    const key = `${to}:${tag}`;
    const lane = this.#lanes.get(key) ?? { pending: 0, waiting: [] };
    this.#lanes.set(key, lane);
    if (lane.pending === AHEAD) await new Promise<void>((go) => lane.waiting.push(go));
    else lane.pending += 1;
    try {
      await this.#group.sendBytes(to, tag, bytes, options);
    } finally {
      // Whoever waits takes this place.
      const next = lane.waiting.shift();
      if (next !== undefined) next();
      else lane.pending -= 1;
      if (lane.pending === 0) this.#lanes.delete(key);
    }
  }
}
