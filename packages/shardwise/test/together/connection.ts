import { createHash } from 'node:crypto';
import { Coordinator } from '../../src/together/coordinator/coordinator.ts';
import type { Frame, Link, LinkEvents } from '../../src/together/protocol/link.ts';
import {
  encodeMessage,
  type Enter,
  type FromCoordinator,
  type FromMember,
  parseFromCoordinator,
} from '../../src/together/protocol/messages.ts';

export const token = 'a token that members know';

export function hashOf(text: string): string {
  return createHash('sha256').update(text).digest('hex');
}

/** A coordinator for members with updates of four bytes. A round waits for 100 ms, and a state for 1000 ms. */
export function testCoordinator(now: () => number): Coordinator {
  return new Coordinator({
    tokenOf: (text) => (text === token ? 0 : -1),
    tokens: 1,
    audit: 0,
    random: () => 0,
    maxMembers: 16,
    roundTimeoutMs: 100,
    stateTimeoutMs: 1000,
    maxBufferedBytes: 1e6,
    now,
  });
}

/** How a member enters whose state is that after so many rounds. */
export function enterAs(completed: number): Enter {
  return {
    kind: 'enter',
    model: hashOf('model'),
    settings: '{}',
    messageBytes: [4],
    stateBytes: 8,
    completed,
    hash: hashOf(String(completed)),
    computes: null,
  };
}

/** A connection whose frames arrive at once. With a name, it is let in. */
export class Connection {
  readonly got: Frame[] = [];
  isOpen = true;
  readonly #events: LinkEvents;

  constructor(coordinator: Coordinator, name?: string) {
    const link: Link = {
      bufferedBytes: 0,
      send: (frame) => void this.got.push(frame),
      close: () => void (this.isOpen = false),
    };
    this.#events = coordinator.connect(link);
    if (name !== undefined) this.tell({ kind: 'hello', version: 1, token, name, direct: false });
  }

  get number(): number {
    const welcome = this.last('welcome');
    return welcome?.kind === 'welcome' ? welcome.number : 0;
  }

  /** The messages that have arrived. */
  get messages(): readonly FromCoordinator[] {
    return this.got.flatMap((frame) => {
      const message = typeof frame === 'string' ? parseFromCoordinator(frame) : null;
      return message === null ? [] : [message];
    });
  }

  /** The latest message of a kind. */
  last(kind: FromCoordinator['kind']): FromCoordinator | undefined {
    return this.messages.findLast((message) => message.kind === kind);
  }

  send(frame: Frame): void {
    this.#events.receive(frame);
  }

  tell(message: FromMember): void {
    this.send(encodeMessage(message));
  }

  end(): void {
    this.#events.closed();
  }
}
