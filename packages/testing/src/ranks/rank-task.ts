import type { ErrorReport } from './rank-failure.ts';

/** What the function of a rank is called with. */
export interface RankContext<World = unknown, Data = unknown> {
  readonly rank: number;
  readonly size: number;
  readonly world: World;
  readonly data: Data;
}

/** Sent to a rank's thread when it starts. */
export interface RankTask {
  readonly moduleUrl: string;
  readonly name: string;
  readonly context: RankContext;
}

/** Sent by a rank's thread when its function ends. */
export type RankMessage =
  | { readonly status: 'fulfilled'; readonly value: unknown }
  | { readonly status: 'rejected'; readonly report: ErrorReport };
