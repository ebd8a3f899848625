/**
 * What an algorithm costs with `size` ranks that are spread evenly over `hosts` hosts. Tests count the messages
 * and bytes of every algorithm and compare them with this.
 */
export interface Cost {
  /** The length of the longest chain of messages of which each has to wait for the one before. */
  readonly rounds: (size: number, hosts: number) => number;
  /**
   * The most bytes that one rank sends. `bytes` is n of the operation's shape line, in bytes. Sums of 16-bit
   * floats travel as f32 where `rankOrder` needs it, and count twice.
   */
  readonly bytesPerRank: (size: number, bytes: number, hosts: number) => number;
  /**
   * The most bytes that the ranks of one host together send to other hosts. Only algorithms that are made to
   * keep it low have it.
   */
  readonly bytesPerHost?: (size: number, bytes: number, hosts: number) => number;
}

/** The cost of a call that sends nothing besides the records with which ranks compare it. */
export const noCost: Cost = { rounds: () => 0, bytesPerRank: () => 0 };
