import type { CountedOperation } from '@shardwise/collectives';

/** The calls of one operation with messages of one size on one group, as this rank saw them. */
export interface CommsRow {
  readonly operation: CountedOperation;
  /** The name of the mesh axis, `world`, or `ranks 0, 2`. */
  readonly group: string;
  /** The ranks of the group, by their numbers in the world. */
  readonly ranks: readonly number[];
  /** The bytes of a message. For an all-gather and a reduce-scatter, these are the bytes of the whole. */
  readonly messageBytes: number;
  readonly count: number;
  /** The sum of latencies. A latency is the time from the issue of a call to its end. */
  readonly totalMs: number;
  readonly averageMs: number;
  /** The part of the latencies for which other ranks had not come. */
  readonly waitingMs: number;
  /** The part of the latencies in which this rank computed, so that the communication cost nothing. */
  readonly hiddenMs: number;
  /** The bytes of the messages over the time in which they moved, in gigabits per second. */
  readonly algorithmGbps: number;
  /** The same for the bytes that the busiest link carries at least, as nccl-tests count them. */
  readonly busGbps: number;
  /**
   * DeepSpeed's straggler effect: over all calls, the sum of the latency on this rank beyond the least latency of any
   * rank. Null for messages, and if ranks were not compared.
   */
  readonly stragglerMs: number | null;
}

/** How long one rank was waited for. */
export interface AwaitedRank {
  /** The number of the rank in the world. */
  readonly rank: number;
  /** The time in which other ranks computed nothing and waited for this one, added up over these ranks. */
  readonly awaitedMs: number;
  /** For each rank, how long it waited for this one. */
  readonly byRank: readonly number[];
  /** The time in which this rank waited for others. */
  readonly waitedMs: number;
}

/** What one rank communicated. */
export interface CommsSummary {
  readonly rank: number;
  readonly worldSize: number;
  /** By operation, group and size. */
  readonly rows: readonly CommsRow[];
  readonly count: number;
  readonly bytes: number;
  /**
   * The time in which programs of this rank waited for communication that nothing hid, as steps report it. Direct calls
   * of a group do not count.
   */
  readonly exposedMs: number;
  /** Who was waited for, the rank that was waited for longest first. Null if ranks were not compared. */
  readonly awaited: readonly AwaitedRank[] | null;
}

const GAP = '  ';

/** Prints a summary as a table, in the order of DeepSpeed's `log_summary`. */
export function formatSummary(summary: CommsSummary): string {
  const { rows, rank, worldSize, count, exposedMs, awaited } = summary;
  const compared = awaited !== null;
  const header = [
    'Comm. Op',
    'Group',
    'Message Size',
    'Count',
    'Total Latency(ms)',
    'Avg Latency(ms)',
    'Waiting(ms)',
    'Hidden',
    'algbw (Gbps)',
    'busbw (Gbps)',
    ...(compared ? ['Straggler(ms)'] : []),
  ];
  const cells = rows.map((row) => [
    row.operation,
    row.group,
    sizeText(row.messageBytes),
    String(row.count),
    row.totalMs.toFixed(2),
    row.averageMs.toFixed(3),
    row.waitingMs.toFixed(2),
    percent(row.hiddenMs, row.totalMs),
    row.algorithmGbps.toFixed(2),
    row.busGbps.toFixed(2),
    ...(compared ? [row.stragglerMs?.toFixed(2) ?? '-'] : []),
  ]);
  const waited = exposedMs > 0 ? ` Programs waited ${exposedMs.toFixed(2)} ms for it.` : '';
  const lines = [
    `Communication of rank ${rank} of ${worldSize}: ${count} calls, ${sizeText(summary.bytes)}.${waited}`,
    ...(rows.length === 0 ? [] : table([header, ...cells])),
  ];
  if (awaited !== null) lines.push(...waitingLines(awaited));
  return lines.join('\n');
}

function table(rows: readonly (readonly string[])[]): string[] {
  const widths = (rows[0] ?? []).map((_, column) =>
    Math.max(...rows.map((row) => row[column]?.length ?? 0)),
  );
  return rows.map((row) =>
    row
      .map((cell, column) => {
        const width = widths[column] ?? 0;
        return column < 2 ? cell.padEnd(width) : cell.padStart(width);
      })
      .join(GAP)
      .trimEnd(),
  );
}

function waitingLines(awaited: readonly AwaitedRank[]): string[] {
  const late = awaited.filter(({ awaitedMs }) => awaitedMs > 0);
  if (late.length === 0) return ['No rank waited for another one.'];
  return late.map(({ rank, awaitedMs, byRank, waitedMs }) => {
    const waiting = byRank.flatMap((ms, by) => (ms > 0 ? [`rank ${by} ${ms.toFixed(2)} ms`] : []));
    return `Rank ${rank} was waited for: ${awaitedMs.toFixed(2)} ms (${waiting.join(', ')}). It waited ${waitedMs.toFixed(2)} ms itself.`;
  });
}

function percent(part: number, whole: number): string {
  return whole > 0 ? `${((100 * part) / whole).toFixed(0)} %` : '-';
}

/** Writes bytes as DeepSpeed does: in steps of 1024, with 2 decimals. */
export function sizeText(bytes: number): string {
  const units = ['B', 'KB', 'MB', 'GB', 'TB'];
  let unit = 0;
  while (bytes / 1024 ** unit >= 1024 && unit < units.length - 1) unit += 1;
  return `${Number((bytes / 1024 ** unit).toFixed(2))} ${units[unit] ?? ''}`;
}
