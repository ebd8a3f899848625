/**
 * Something that remembers between updates and that a checkpoint keeps: a loss scaler, a schedule, a
 * communication hook, or the script's own. Its state is plain data (what JSON keeps exactly) in which
 * HostArrays may stand for tensors.
 */
export interface Stateful {
  /** This rank's; may be a promise. */
  stateDict(): unknown;
  /** Takes what stateDict gave, and throws for anything else before it changes. May be a promise. */
  loadStateDict(state: unknown): unknown;
}

/** What a checkpoint holds, each under its name. */
export type Statefuls = Readonly<Record<string, Stateful>>;
