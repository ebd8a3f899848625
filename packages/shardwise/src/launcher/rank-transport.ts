/** How ranks reach each other, as the launcher sees it. */
export interface RankTransport {
  /** Given to each rank with its workerData. */
  readonly world: unknown;
  /** Makes every pending and future call on every rank fail, with `rank` as the culprit. */
  abort(rank: number, reason: string): void;
}
