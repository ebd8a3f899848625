import type { Socket } from 'node:net';
import type { StreamReader } from './connect.ts';
import type { FrameLimits } from './frame-header.ts';
import { FrameParser, type Frame } from './frame-parser.ts';
import { protocolError } from './wire-error.ts';

/** How a protocol of calls and replies uses its connection. */
export interface CallProtocol {
  /** The greatest length of each kind of reply. */
  readonly limits: FrameLimits;
  /** The length in bytes of the memory that receives. */
  readonly readBytes: number;
  /**
   * Reads a reply, which is the parts of an answer, or the error of a refusal. Throws CollectiveError if it is
   * malformed.
   */
  readonly read: (reply: Frame) => readonly Uint8Array[] | Error;
  /** The error of calls whose connection has ended. `reason` is undefined if this side has closed it. */
  readonly ended: (reason: Error | undefined) => Error;
}

export interface FrameCall {
  /** The call as pieces of memory that are written one after the other. */
  readonly frame: (tag: number) => readonly Uint8Array[];
  /** Starts to watch the call's time limit. Returns a function that stops this. */
  readonly watch?: (giveUp: (error: Error) => void) => () => void;
  /** Called when the call has left this process. */
  readonly sent?: (() => void) | undefined;
  /** The frame that tells the server that the call was given up. */
  readonly cancel?: (tag: number) => Uint8Array;
}

interface Pending {
  readonly resolve: (parts: readonly Uint8Array[]) => void;
  readonly reject: (error: Error) => void;
}

/** Makes calls on one connection. The reply that has a call's tag settles it. */
export class FrameCaller implements StreamReader {
  readonly #protocol: CallProtocol;
  readonly #parser: FrameParser;
  readonly #buffer: Uint8Array;
  readonly #pending = new Map<number, Pending>();
  #socket: Socket | undefined;
  #calls = 0;
  #ended: Error | undefined;

  constructor(protocol: CallProtocol) {
    this.#protocol = protocol;
    this.#parser = new FrameParser(protocol.limits);
    this.#buffer = new Uint8Array(protocol.readBytes);
  }

  attach(socket: Socket): void {
    this.#socket = socket;
    socket.on('error', (error) => this.#end(error));
    socket.on('close', () => this.#end(new Error('its connection was closed')));
    // Calls keep the process alive, and an idle connection does not.
    socket.resume().unref();
  }

  target(): Uint8Array {
    return this.#buffer;
  }

  read(bytes: Uint8Array): boolean {
    for (const frame of this.#parser.push(bytes)) this.#settle(frame);
    return true;
  }

  async call({ frame, watch, sent, cancel }: FrameCall): Promise<readonly Uint8Array[]> {
    const socket = this.#socket;
    if (this.#ended !== undefined) throw this.#ended;
    if (socket === undefined) throw this.#protocol.ended(undefined);
    const tag = this.#calls++;
    const { promise, resolve, reject } = Promise.withResolvers<readonly Uint8Array[]>();
    this.#pending.set(tag, { resolve, reject });
    socket.ref();
    socket.cork();
    const pieces = frame(tag);
    for (const [index, piece] of pieces.entries()) {
      if (sent !== undefined && index === pieces.length - 1) socket.write(piece, sent);
      else socket.write(piece);
    }
    socket.uncork();
    const stop = watch?.((error) => {
      reject(error);
      if (cancel !== undefined) socket.write(cancel(tag));
    });
    try {
      return await promise;
    } finally {
      stop?.();
    }
  }

  /** Sends a frame that has no reply. */
  tell(frame: Uint8Array): void {
    if (this.#ended === undefined) this.#socket?.write(frame);
  }

  close(): void {
    this.#end(undefined);
    this.#socket?.destroy();
  }

  #settle(reply: Frame): void {
    const pending = this.#pending.get(reply.tag);
    if (pending === undefined) {
      throw protocolError(`it answers call ${reply.tag}, which nobody made`);
    }
    // A malformed reply throws here, while its call is still pending: the end of the connection then rejects it.
    const said = this.#protocol.read(reply);
    this.#pending.delete(reply.tag);
    if (this.#pending.size === 0) this.#socket?.unref();
    if (said instanceof Error) pending.reject(said);
    else pending.resolve(said);
  }

  #end(reason: Error | undefined): void {
    this.#ended ??= this.#protocol.ended(reason);
    for (const { reject } of this.#pending.values()) reject(this.#ended);
    this.#pending.clear();
  }
}
