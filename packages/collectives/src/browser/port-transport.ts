import {
  checkOptions,
  ConfigError,
  option,
  type CallOptions,
  type CollectiveError,
  type OptionRules,
} from '@shardwise/core/spec';
import { causeOf, peerClosedError } from '../call/failure.ts';
import { peerRangeError } from '../transports/message-errors.ts';
import type { WatchedTransport } from '../transports/watched-transport.ts';
import { PortLink } from './port-link.ts';
import { StarterPort } from './starter-port.ts';

export interface PortTransportOptions {
  readonly rank: number;
  readonly size: number;
  /**
   * By rank, the port to that rank, and in this rank's own place one to whoever started the ranks,
   * who may end the transport: a row of connectPorts.
   */
  readonly ports: readonly MessagePort[];
  /**
   * What a peer may send that this rank does not receive yet; then the peer waits. The same on
   * every rank. Default: 64 MiB.
   */
  readonly maxUnexpectedBytes?: number;
}

const portRules: OptionRules<PortTransportOptions> = {
  rank: option.required(option.number),
  size: option.required(option.number),
  ports: option.required(option.listOf(option.object('a port'))),
  maxUnexpectedBytes: option.count,
};

/**
 * Ranks that are workers of one page or process and share no memory: messages are copied once,
 * handed over, and copied to where they are received. A worker that ends is noticed where the
 * platform tells that its ports have closed; else by the time limits of calls. Throws ConfigError.
 */
export function portTransport(options: PortTransportOptions): WatchedTransport {
  checkOptions('portTransport', options, portRules);
  const { rank, size, ports, maxUnexpectedBytes = 64 << 20 } = options;
  const isRank = Number.isInteger(rank) && rank >= 0 && rank < size;
  if (!isRank || ports.length !== size) {
    throw new ConfigError(
      {
        asked: `A transport over ${ports.length} ports for rank ${rank} of ${size}`,
        found: 'each rank has as many ports as there are ranks',
        todo: 'Pass row `rank` of connectPorts',
      },
      { rank, size, ports: ports.length },
    );
  }
  return new PortEnd(rank, ports, maxUnexpectedBytes);
}

/** One rank's end of all its links; whatever fails one of them fails it as a whole. */
class PortEnd implements WatchedTransport {
  readonly rank: number;
  readonly size: number;
  readonly ended: Promise<never>;
  readonly #links: ReadonlyMap<number, PortLink>;
  readonly #starter: StarterPort | undefined;
  readonly #end: (error: Error) => void;
  #isOver = false;

  constructor(rank: number, ports: readonly MessagePort[], maxUnexpectedBytes: number) {
    const { promise, reject } = Promise.withResolvers<never>();
    this.rank = rank;
    this.size = ports.length;
    this.ended = promise;
    // The pending calls tell it; this is for who awaits none.
    promise.catch(() => {});
    this.#end = reject;
    const fail = (error: CollectiveError): void => this.#fail(error);
    const links = new Map<number, PortLink>();
    for (const [peer, port] of ports.entries()) {
      if (peer === rank) this.#starter = new StarterPort(port, fail);
      else links.set(peer, new PortLink({ rank, peer, port, maxUnexpectedBytes, fail }));
    }
    this.#links = links;
  }

  async send(to: number, tag: number, bytes: Uint8Array, options?: CallOptions): Promise<void> {
    return this.#link(to).send(tag, bytes, options);
  }

  async recv(from: number, tag: number, bytes: Uint8Array, options?: CallOptions): Promise<void> {
    return this.#link(from).recv(tag, bytes, options);
  }

  /** With a reason, the peers fail as well; without, what was sent before stays receivable. */
  close(reason?: Error): void {
    const error = peerClosedError(this.rank, reason);
    if (reason !== undefined) this.#fail(error);
    else if (this.#finish(error)) for (const link of this.#links.values()) link.leave(error);
  }

  #fail(error: CollectiveError): void {
    const cause = causeOf(error, this.rank);
    if (!this.#finish(error)) return;
    for (const link of this.#links.values()) link.fail(error, cause);
  }

  /** False where it was over already. */
  #finish(error: CollectiveError): boolean {
    if (this.#isOver) return false;
    this.#isOver = true;
    this.#end(error);
    this.#starter?.close();
    return true;
  }

  #link(peer: number): PortLink {
    const link = this.#links.get(peer);
    if (link === undefined) throw peerRangeError(this.rank, peer, [...this.#links.keys()]);
    return link;
  }
}
