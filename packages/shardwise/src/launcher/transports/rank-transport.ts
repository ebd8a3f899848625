import type { JoinWay } from '../rank-data.ts';
import type { TransportChoice } from './transport-choice.ts';

/** How the ranks of one start reach each other, as the launcher of one host sees it. */
export interface RankTransport {
  readonly choice: TransportChoice;
  readonly way: JoinWay;
  /** Makes every pending and future call in memory of this host fail, with `rank` as the culprit. */
  abort(rank: number | undefined, reason: string): void;
  /** To be called once the ranks have ended. */
  close(): void;
}
