import { costOf, hasRoom, type PortMessage } from './port-message.ts';

interface Waiting {
  readonly tag: number;
  readonly bytes: Uint8Array;
  readonly resolve: () => void;
  readonly reject: (error: Error) => void;
}

/** A message that is on its way, or that waits until there is room. */
export interface Sending {
  /** Settles when the bytes may be reused. */
  readonly done: Promise<void>;
  /** Ends the wait with an error. If the message has not left, it never does. */
  readonly giveUp: (error: Error) => void;
}

/** Posts messages to one peer. Messages wait here while the peer has too many that nobody has received. */
export class PortOutbox {
  readonly #port: MessagePort;
  readonly #maxCost: number;
  readonly #waiting: Waiting[] = [];
  /** The cost of the messages that the peer has not reported as received. */
  #cost = 0;

  constructor(port: MessagePort, maxCost: number) {
    this.#port = port;
    this.#maxCost = maxCost;
  }

  send(tag: number, bytes: Uint8Array): Sending {
    const { promise, resolve, reject } = Promise.withResolvers<void>();
    const waiting: Waiting = { tag, bytes, resolve, reject };
    this.#waiting.push(waiting);
    this.#post();
    const giveUp = (error: Error): void => {
      const index = this.#waiting.indexOf(waiting);
      if (index >= 0) this.#waiting.splice(index, 1);
      reject(error);
    };
    return { done: promise, giveUp };
  }

  /** Notes that the peer has received messages of this cost. Returns false if they are more than were sent. */
  taken(cost: number): boolean {
    if (cost > this.#cost) return false;
    this.#cost -= cost;
    this.#post();
    return true;
  }

  end(error: Error): void {
    for (const { reject } of this.#waiting.splice(0)) reject(error);
  }

  /** Posts copies, because a buffer that is posted belongs to the peer afterwards. */
  #post(): void {
    for (let next = this.#waiting[0]; next !== undefined; next = this.#waiting[0]) {
      const cost = costOf(next.bytes.byteLength);
      if (!hasRoom(this.#cost, cost, this.#maxCost)) return;
      this.#waiting.shift();
      this.#cost += cost;
      const bytes = new ArrayBuffer(next.bytes.byteLength);
      new Uint8Array(bytes).set(next.bytes);
      const message: PortMessage = { kind: 'message', tag: next.tag, bytes };
      this.#port.postMessage(message, [bytes]);
      next.resolve();
    }
  }
}
