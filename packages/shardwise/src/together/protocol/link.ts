/** What travels between a member and its coordinator: a message, or a piece of data. */
export type Frame = string | Uint8Array;

/** One end of a connection. */
export interface Link {
  /** Frames arrive in order, or not at all. */
  send(frame: Frame): void;
  /** The bytes that were sent and are still here. */
  readonly bufferedBytes: number;
  /** How long a message took there and back. Undefined: it has not been measured. */
  readonly roundTripMs?: number | undefined;
  close(): void;
}

/** What the owner of an end does with what happens there. */
export interface LinkEvents {
  receive(frame: Frame): void;
  /** Nothing arrives any more. Called once, also after a `close` of this end. */
  closed(): void;
}
