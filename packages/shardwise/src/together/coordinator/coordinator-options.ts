/** What a coordinator is made of. Times are in milliseconds. */
export interface CoordinatorOptions {
  /** The place of a text among the tokens, in a time that does not depend on the text. -1: it is none of them. */
  readonly tokenOf: (text: string) => number;
  /** The number of tokens. With several, a token of a member that has cheated is refused from then on. */
  readonly tokens: number;
  /** The share of the updates that other members make again, from 0 to 1. */
  readonly audit: number;
  /** Numbers from 0 below 1 that no member can guess. */
  readonly random: () => number;
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
