/** Ordered messages between the ranks of one group: what an algorithm is given. */
export interface Wire {
  readonly rank: number;
  readonly size: number;
  /** Settles when `bytes` may be reused. */
  send(to: number, bytes: Uint8Array): Promise<void>;
  recv(from: number, bytes: Uint8Array): Promise<void>;
}

/** What an algorithm costs with `size` ranks; the tests count messages to see that it is so. */
export interface Cost {
  /** Messages that follow one another. */
  readonly steps: (size: number) => number;
  /** The most that one rank sends. `bytes` is n of the operation's shape line, in bytes. */
  readonly bytesPerRank: (size: number, bytes: number) => number;
}

/** Values of every rank, in rank order: what a specification is a function of. */
export type PerRank = readonly (readonly number[])[];
export type Reduce = (a: number, b: number) => number;
