import type { JoinWay } from '../rank-data.ts';
import type { TransportChoice } from './transport-choice.ts';

/** How the ranks of one start reach each other, as the launcher of one host sees it. */
export interface RankTransport {
  readonly choice: TransportChoice;
  readonly way: JoinWay;
  /**
   * Makes every pending and future call of this host's ranks fail, with `rank` as the culprit. False
   * where the launcher has no hold of it, and the ranks are to be told.
   */
  abort(rank: number | undefined, reason: string): boolean;
  /** Once the ranks have ended. */
  close(): void;
}
