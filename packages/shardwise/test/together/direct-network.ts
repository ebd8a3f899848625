import type {
  ConnectDirectly,
  DirectEvents,
  DirectLink,
} from '../../src/together/protocol/direct-link.ts';
import type { VirtualNetwork } from './virtual-network.ts';

const MESSAGE_MS = 5;

interface End {
  readonly name: string;
  readonly events: DirectEvents;
  other: End | null;
  isClosed: boolean;
  /** What happens here, one after another. */
  order: Promise<void>;
}

/** Connections from member to member in a virtual network. */
export class DirectNetwork {
  /** The bytes that went from member to member. */
  bytes = 0;
  /** What becomes of a message. Null: it never arrives. */
  alter: (bytes: Uint8Array, from: string, to: string) => Uint8Array | null = (bytes) => bytes;
  readonly #network: VirtualNetwork;
  readonly #canMeet: (a: string, b: string) => boolean;
  readonly #ends: End[] = [];

  /** `canMeet`: whether two members can reach each other. */
  constructor(network: VirtualNetwork, canMeet: (a: string, b: string) => boolean = () => true) {
    this.#network = network;
    this.#canMeet = canMeet;
  }

  /** How a member connects with others. */
  of(name: string): ConnectDirectly {
    return (begins, events) => {
      const end: End = { name, events, other: null, isClosed: false, order: Promise.resolve() };
      const index = this.#ends.push(end) - 1;
      if (begins) this.#later(end, () => events.signal(`offer ${index}`));
      return this.#link(end);
    };
  }

  /** Has a message arrive that no member sends. */
  inject(bytes: Uint8Array, from: string, to: string): void {
    for (const { name, events, other } of this.#ends) {
      if (name === to && other?.name === from) events.receive(bytes);
    }
  }

  /** Ends all connections of a member. */
  cut(name: string): void {
    for (const end of this.#ends) if (end.name === name) close(end);
  }

  #link(end: End): DirectLink {
    return {
      signal: (text) => {
        const [, index = ''] = /^offer (\d+)$/.exec(text) ?? [];
        const other = this.#ends[Number(index)];
        if (other === undefined || !this.#canMeet(end.name, other.name)) return;
        [end.other, other.other] = [other, end];
        this.#later(end, () => end.events.opened());
        this.#later(other, () => other.events.opened());
      },
      send: (bytes) => {
        const { other } = end;
        if (other === null) return;
        const sent = this.alter(bytes.slice(), end.name, other.name);
        if (sent === null) return;
        this.bytes += sent.byteLength;
        this.#later(other, () => {
          if (!other.isClosed) other.events.receive(sent);
        });
      },
      bufferedBytes: 0,
      close: () => close(end),
    };
  }

  #later(end: End, work: () => void): void {
    end.order = end.order.then(() => this.#network.delay(MESSAGE_MS)).then(work);
  }
}

function close(end: End): void {
  for (const each of [end, end.other]) {
    if (each === null || each.isClosed) continue;
    each.isClosed = true;
    each.events.closed();
  }
}
