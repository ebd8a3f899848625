import { checkOptions, option, type OptionRules } from '@shardwise/core/base';
import type { Transport } from '@shardwise/core/spec';

/** Options of `shapeTransport`. */
export interface ShapeOptions {
  /** The bits that a rank can send, and those that it can receive, in a second. */
  readonly bitsPerSecond: number;
  /** The seconds that a message is on its way, beside those for its bits. */
  readonly latencySeconds: number;
}

const shapeRules: OptionRules<ShapeOptions> = {
  bitsPerSecond: option.required(option.positive),
  latencySeconds: option.required(option.nonNegative),
};

/** A transport of slow links. Time passes on a clock of its own, so that a run over them takes no longer. */
export interface ShapedTransport extends Transport {
  /**
   * The seconds that have passed for this rank: those of its messages, and those that it has added for its computing.
   * Ranks compare theirs by messages alone.
   */
  seconds: number;
  /** The bytes that this rank has sent. */
  readonly sentBytes: number;
}

/** The time of arrival, before the bytes of a message: f64, little-endian. */
const STAMP_BYTES = 8;

/**
 * Makes a transport of links that are slower than those of `transport`. Nothing waits: each message carries the time at
 * which it arrives, and moves the clock of its receiver there. A rank sends one message after the other, and receives
 * them so. All ranks must use it. Throws ConfigError for options out of range.
 */
export function shapeTransport(transport: Transport, options: ShapeOptions): ShapedTransport {
  checkOptions('shapeTransport', options, shapeRules);
  return new Shaped(transport, options);
}

class Shaped implements ShapedTransport {
  readonly specificationVersion = 1;
  readonly rank: number;
  readonly size: number;
  seconds = 0;
  #sentBytes = 0;
  /** The times at which the link of this rank can send, and receive, the next message. */
  #sends = 0;
  #receives = 0;
  readonly #transport: Transport;
  readonly #options: ShapeOptions;

  constructor(transport: Transport, options: ShapeOptions) {
    this.#transport = transport;
    this.#options = options;
    this.rank = transport.rank;
    this.size = transport.size;
  }

  get sentBytes(): number {
    return this.#sentBytes;
  }

  send(...[to, tag, bytes, options]: Parameters<Transport['send']>): Promise<void> {
    const { latencySeconds } = this.#options;
    this.#sends = Math.max(this.#sends, this.seconds) + this.#secondsOf(bytes);
    this.#sentBytes += bytes.byteLength;
    const message = new Uint8Array(STAMP_BYTES + bytes.byteLength);
    new DataView(message.buffer).setFloat64(0, this.#sends + latencySeconds, true);
    message.set(bytes, STAMP_BYTES);
    return this.#transport.send(to, tag, message, options);
  }

  async recv(...[from, tag, bytes, options]: Parameters<Transport['recv']>): Promise<void> {
    const message = new Uint8Array(STAMP_BYTES + bytes.byteLength);
    await this.#transport.recv(from, tag, message, options);
    bytes.set(message.subarray(STAMP_BYTES));
    const arrives = new DataView(message.buffer).getFloat64(0, true);
    // The bits come in while they are sent, unless those of another message come in.
    this.#receives = Math.max(arrives, this.#receives + this.#secondsOf(bytes));
    this.seconds = Math.max(this.seconds, this.#receives);
  }

  close(reason?: Error): void {
    this.#transport.close(reason);
  }

  #secondsOf({ byteLength }: Uint8Array): number {
    return (byteLength * 8) / this.#options.bitsPerSecond;
  }
}
