/** What happens with a connection from member to member. */
export interface DirectEvents {
  /** The other end must get this text, by way of the coordinator. */
  signal(text: string): void;
  opened(): void;
  receive(bytes: Uint8Array): void;
  /** Called once. Nothing arrives any more, or it could not be opened. */
  closed(): void;
}

/** One end of a connection from member to member, which is ordered and loses nothing while it lasts. */
export interface DirectLink {
  /** Takes a text of the other end. */
  signal(text: string): void;
  send(bytes: Uint8Array): void;
  /** The bytes that were given to `send` and are still here. */
  readonly bufferedBytes: number;
  close(): void;
}

/** Makes an end. `begins`: the other end answers. */
export type ConnectDirectly = (begins: boolean, events: DirectEvents) => DirectLink;

/** The bytes of data in a message of WebRTC, which all browsers take. */
export const DIRECT_PIECE_BYTES: number = 64 * 1024;

/** So many members may reach each other directly. Each has a connection with all others. */
export const MAX_DIRECT = 32;

/** The longest text of a signal. */
export const MAX_SIGNAL_LENGTH: number = 16 * 1024;

/** A connection that is not there after so many milliseconds is given up. */
export const MAX_OPENING_MS = 10_000;
