import type { PeerRound } from './peer.ts';
import type { RankRound } from './rank-messages.ts';
import { mean, type Rounds, summarize } from './summary.ts';

/** Summarizes rounds without the first one, which is a warm-up. A round takes as long as its slowest rank. */
export function wall(rounds: readonly (readonly RankRound[])[]): Rounds {
  return summarize(
    rounds.slice(1).map((ranks) => [Math.max(...ranks.map(({ msPerStep }) => msPerStep))]),
  );
}

export function peerWall(rounds: readonly PeerRound[]): Rounds {
  return summarize(rounds.slice(1).map(({ ms }) => [mean(ms)]));
}
