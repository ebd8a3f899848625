import type { MessagePort } from 'node:worker_threads';

/** Tells workers of a launcher from other workers. */
export const rankDataMarker = 'shardwise-rank-1';

/** What a rank finds in its workerData. */
export interface RankData<World = unknown> {
  readonly marker: typeof rankDataMarker;
  readonly rank: number;
  readonly worldSize: number;
  readonly runDirectory: string;
  readonly resumeDirectory: string | undefined;
  /** Memory of the StopWord. */
  readonly stop: SharedArrayBuffer;
  /** To the launcher; carries RankMessages. */
  readonly port: MessagePort;
  /** What the transport needs to join. */
  readonly world: World;
}
