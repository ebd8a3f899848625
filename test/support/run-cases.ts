import { createThreadsWorld, type ThreadsWorld } from '@shardwise/collectives';
import { runRanks } from './run-ranks.ts';

/** One call of an exported function of a module of ranks. */
export interface RanksCase {
  /** Default: main. */
  readonly name?: string;
  readonly data?: unknown;
}

/** The cases of a module, each with a world of its own. */
export interface CasesTask {
  readonly module: string;
  readonly cases: readonly (RanksCase & { readonly world: ThreadsWorld })[];
}

const timeoutMs = 120_000;

/**
 * Runs several cases of a module of ranks on the same threads, because to start threads takes longer than most cases
 * do. Each case has a world of its own. Returns the results of the ranks for each case.
 */
export async function runCases(
  size: number,
  module: URL,
  cases: readonly RanksCase[],
  arenaBytes = 4 * 1024 * 1024,
): Promise<readonly (readonly unknown[])[]> {
  const data: CasesTask = {
    module: String(module),
    cases: cases.map((each) => ({ ...each, world: createThreadsWorld({ size, arenaBytes }) })),
  };
  const url = new URL('../ranks/cases.ts', import.meta.url);
  const found = await runRanks(size, url, { data, timeoutMs });
  return cases.map((_, index) =>
    found.map((ofRank) => (Array.isArray(ofRank) ? ofRank[index] : undefined)),
  );
}
