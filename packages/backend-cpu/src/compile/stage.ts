/** The address of a value during a run, in bytes from the start of the memory. */
export type AddressOf = (id: number) => number;

/** A piece, ready to run. */
export interface Stage {
  run(addressOf: AddressOf): Promise<void> | void;
  /** Gives sessions back; called once, after the last run. */
  dispose?(): Promise<void> | void;
}
