import { checkOptions, option, type OptionRules } from '@shardwise/core/base';
import {
  abortCauseOf,
  abortedByError,
  type CallOptions,
  type CollectiveError,
  ConfigError,
  peerClosedError,
} from '@shardwise/core/spec';
import { peerRangeError } from '../transports/message-errors.ts';
import type { WatchedTransport } from '../transports/watched-transport.ts';
import { PortLink } from './port-link.ts';
import { parsePortMessage } from './port-message.ts';

/** Options of `portTransport`. */
export interface PortTransportOptions {
  readonly rank: number;
  readonly size: number;
  /**
   * For each rank, the port to that rank. The port at this rank's own index leads to the program that started
   * the ranks, which may end the transport. This is a row of connectPorts.
   */
  readonly ports: readonly MessagePort[];
  /**
   * The number of bytes that a peer may have sent and this rank has not received yet. Beyond it, the peer
   * waits. It is the same on every rank. Default: 64 MiB.
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
 * A transport for ranks that are workers of one page or process and share no memory. A message is copied once,
 * posted, and copied to the receiver's buffer. If the platform reports closed ports, the end of a worker is
 * noticed at once; otherwise the time limits of calls notice it. Throws ConfigError for options that do not
 * fit.
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

/** One rank's end of all its links. A failure of one link ends all of them. */
class PortEnd implements WatchedTransport {
  readonly specificationVersion = 1;
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
    // Pending calls report the failure, so a program need not await this promise. It is for one that awaits no call.
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

  /**
   * With a reason, the calls of the peers fail as well. Without one, peers can still receive what was sent
   * before.
   */
  close(reason?: Error): void {
    const error = peerClosedError(this.rank, reason);
    if (reason !== undefined) this.#fail(error);
    else if (this.#finish(error)) for (const link of this.#links.values()) link.leave(error);
  }

  #fail(error: CollectiveError): void {
    const cause = abortCauseOf(error, this.rank);
    if (!this.#finish(error)) return;
    for (const link of this.#links.values()) link.fail(error, cause);
  }

  /** Ends the transport once. Returns false if it had ended before. */
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

/** The port to whoever started the ranks. They can end the transport over it, and nothing else. */
class StarterPort {
  readonly #port: MessagePort;

  constructor(port: MessagePort, fail: (error: CollectiveError) => void) {
    this.#port = port;
    port.addEventListener('message', ({ data }) => {
      const message = parsePortMessage(data);
      if (message?.kind === 'abort') fail(abortedByError(message));
    });
    port.start();
  }

  close(): void {
    this.#port.close();
  }
}
