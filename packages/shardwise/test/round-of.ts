import type { Round } from '../src/rendezvous/round.ts';

/** Describes the first round of a run that uses only this host. */
export function roundOf(ranks: number, runDirectory: string): Round {
  return {
    epoch: 0,
    nodes: [{ id: 'only', name: 'host', address: '127.0.0.1', ranks }],
    nodeRank: 0,
    restarts: 0,
    runDirectory,
    resumeDirectory: undefined,
    transport: undefined,
    store: undefined,
  };
}
