import type { ErrorReport } from './rank-failure.ts';

/** The argument of the function that a rank calls. */
export interface RankContext<World = unknown, Data = unknown> {
  readonly rank: number;
  readonly size: number;
  readonly world: World;
  readonly data: Data;
}

/** The message that a rank's thread gets when it starts. */
export interface RankTask {
  readonly moduleUrl: string;
  readonly name: string;
  readonly context: RankContext;
}

/** The message that a rank's thread sends when its function ends. */
export type RankMessage =
  | { readonly status: 'fulfilled'; readonly value: unknown }
  | { readonly status: 'rejected'; readonly report: ErrorReport };
