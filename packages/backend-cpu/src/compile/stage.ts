/** The address of a value during a run, in bytes from the start of the memory. */
export type AddressOf = (id: number) => number;

/** A piece, ready to run. */
export interface Stage {
  /** With `overlap`, leaves the event loop free where it can and where that is worth it. */
  run(addressOf: AddressOf, overlap: boolean): Promise<void> | void;
  /** Gives sessions back; called once, after the last run. */
  dispose?(): Promise<void> | void;
}
