import type { Generation } from '../src/rendezvous/generation.ts';

/** Describes the first generation of a run that uses only this host. */
export function generationOf(ranks: number, runDirectory: string): Generation {
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
