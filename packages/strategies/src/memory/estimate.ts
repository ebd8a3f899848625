import { ConfigError } from '@shardwise/core';

/** A cluster, as DeepSpeed's estimators ask for it. */
export interface Cluster {
  readonly nodes: number;
  readonly ranksPerNode: number;
}

/** What the states of a model in 16 bits take with Adam. */
export interface StatesEstimate {
  /** Of each rank's device. */
  readonly deviceBytes: number;
  /** Of each node's host. */
  readonly hostBytes: number;
}

/** Room for buffers, as a factor on what is kept on the host. */
export const hostBufferFactor = 1.5;

/** Throws ConfigError for counts that are not. */
export function checkCounts(counts: Readonly<Record<string, number>>): void {
  for (const [name, count] of Object.entries(counts)) {
    if (Number.isSafeInteger(count) && count > 0) continue;
    throw new ConfigError(
      {
        asked: `an estimate of memory with ${name} ${count}`,
        found: 'no positive integer',
        todo: 'Give an integer of at least 1',
      },
      { [name]: count },
    );
  }
}
