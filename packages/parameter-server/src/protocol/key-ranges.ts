import { balancedPartition } from '@shardwise/strategies';

/** The keys from `start` to `end` - 1. */
export interface KeyRange {
  readonly start: number;
  readonly end: number;
}

/**
 * Divides keys among servers, in order, so that the server with the most bytes has as few as possible. A key is
 * one parameter and stays whole, because an optimizer may need all of it. If there are more servers than keys,
 * the last servers have none.
 */
export function keyRanges(bytes: readonly number[], servers: number): readonly KeyRange[] {
  const used = Math.min(servers, bytes.length);
  const cuts = used === 0 ? [0] : balancedPartition(bytes, used);
  return Array.from({ length: servers }, (_, server) => ({
    start: cuts[server] ?? bytes.length,
    end: cuts[server + 1] ?? bytes.length,
  }));
}

/** Divides rows equally: server i has the rows from rows·i / n to rows·(i + 1) / n - 1. */
export function rowRange(rows: number, servers: number, server: number): KeyRange {
  return {
    start: Math.floor((rows * server) / servers),
    end: Math.floor((rows * (server + 1)) / servers),
  };
}
