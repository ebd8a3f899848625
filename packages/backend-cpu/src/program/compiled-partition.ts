/** The address of a value during a run, in bytes from the start of the memory. */
export type AddressOf = (id: number) => number;

/** A piece of a program that can be run. */
export interface CompiledPiece {
  /**
   * Runs the piece. If `addressOf` is the same function as in the run before, all addresses are the same too. With
   * `overlap`, a piece leaves the event loop free where that is possible and worth it.
   */
  run(addressOf: AddressOf, overlap: boolean): Promise<void> | void;
  /** Frees what the piece keeps for its runs. It is called once, after the last run. */
  dispose?(): Promise<void> | void;
}
