/**
 * An object that remembers something between updates and that a checkpoint keeps: a loss scaler, a schedule, a
 * communication hook, or an object of the script. Its state is plain data that JSON keeps exactly. Instead of
 * tensors it may contain HostArrays.
 */
export interface Stateful {
  /** The state of this rank. It may be a promise. */
  stateDict(): unknown;
  /**
   * Loads a state that stateDict returned. For anything else it throws before it changes something. It may return a
   * promise.
   */
  loadStateDict(state: unknown): unknown;
}

/** The objects whose states a checkpoint contains, each under its name. */
export type Statefuls = Readonly<Record<string, Stateful>>;
