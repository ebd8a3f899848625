/** Ordered messages between the ranks of one group: what an algorithm is given. */
export interface Wire {
  readonly rank: number;
  readonly size: number;
  /** Ranks of each host, ascending; the hosts in the order of their first ranks. */
  readonly hosts: readonly (readonly number[])[];
  /** Settles when `bytes` may be reused. Messages of one stream (default: 0) arrive in order. */
  send(to: number, bytes: Uint8Array, stream?: Stream): Promise<void>;
  recv(from: number, bytes: Uint8Array, stream?: Stream): Promise<void>;
}

/** A second stream, for what is not to wait behind the first: results, behind contributions. */
export type Stream = 0 | 1;

/** What an algorithm costs with `size` ranks, as many on each of `hosts`; tests count messages to see that it is so. */
export interface Cost {
  /** Messages that follow one another. */
  readonly steps: (size: number, hosts: number) => number;
  /**
   * The most that one rank sends. `bytes` is n of the operation's shape line, in bytes; sums of
   * 16-bit floats travel as f32 where `rankOrder` needs it, and count twice.
   */
  readonly bytesPerRank: (size: number, bytes: number, hosts: number) => number;
  /** The most that the ranks of one host send to others; only of algorithms that keep it low. */
  readonly bytesPerHost?: (size: number, bytes: number, hosts: number) => number;
}

/** Values of every rank, in rank order: what a specification is a function of. */
export type PerRank = readonly (readonly number[])[];
export type Reduce = (a: number, b: number) => number;
