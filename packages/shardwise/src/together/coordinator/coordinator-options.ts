/** What a coordinator is made of. Times are in milliseconds. */
export interface CoordinatorOptions {
  /** Whether a text is the token, in a time that does not depend on the text. */
  readonly isToken: (text: string) => boolean;
  readonly maxMembers: number;
  /** How long a round goes on after its first update. */
  readonly roundTimeoutMs: number;
  /** How long a member may take to send its state before another one is asked. */
  readonly stateTimeoutMs: number;
  /** A member to which so many bytes are on their way is too slow. */
  readonly maxBufferedBytes: number;
  readonly now: () => number;
  /** Is told who comes and goes, and why. */
  readonly onNotice?: (notice: string) => void;
}
