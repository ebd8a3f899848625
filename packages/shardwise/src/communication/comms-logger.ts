import {
  type CallListener,
  type CountedOperation,
  type ObservedCall,
  observeCalls,
} from '@shardwise/collectives';
import { statistics, subscribe } from '@shardwise/core';
import {
  checkOptions,
  option,
  type OptionRules,
  printing,
  type ProcessGroup,
  rankState,
} from '@shardwise/core/extend';
import { bandwidthOf, messageBytes } from './bandwidth.ts';
import { CallLog, type FinishedCall, type LoggedCall } from './call-log.ts';
import { compareRanks, type GroupCalls } from './compare-ranks.ts';
import { type CommsRow, type CommsSummary, formatSummary, sizeText } from './comms-summary.ts';

/** Options of `commsLogger`. The names are those of DeepSpeed's section `comms_logger`. */
export interface CommsLoggerOptions {
  /** Whether the logger begins at once. Otherwise `start` begins it. Default: true. */
  readonly enabled?: boolean;
  /** Whether rank 0 prints a line for each call when it has ended. Default: false. */
  readonly verbose?: boolean;
  /** Whether all operations are logged. Default: true, unless `profOps` are given. */
  readonly profAll?: boolean;
  /** The operations that are logged if not all are, such as `['allReduce', 'send']`. Default: none. */
  readonly profOps?: readonly CountedOperation[];
  /** Whether the lines of `verbose` say what each call is and where the program made it. Default: false. */
  readonly debug?: boolean;
}

/** The operations, in the order in which they are printed. */
const operations: readonly CountedOperation[] = [
  'allReduce',
  'allGather',
  'reduceScatter',
  'allToAll',
  'broadcast',
  'reduce',
  'gather',
  'scatter',
  'barrier',
  'split',
  'send',
  'recv',
];

const rules: OptionRules<CommsLoggerOptions> = {
  enabled: option.flag,
  verbose: option.flag,
  profAll: option.flag,
  profOps: option.listOf(option.oneOf<CountedOperation>(...operations)),
  debug: option.flag,
};

/** Options of `logSummary`. */
export interface LogSummaryOptions {
  /**
   * Whether ranks compare their calls, and say who waited for whom. It is then a collective: all ranks call it, at the
   * same place of the program. Default: false.
   */
  readonly showStraggler?: boolean;
  /** Whether this rank prints the summary. Default: rank 0 does. */
  readonly print?: boolean;
}

const summaryRules: OptionRules<LogSummaryOptions> = {
  showStraggler: option.flag,
  print: option.flag,
};

/** The calls of a group that ranks compare are its newest. Older ones only count in the rows. */
const COMPARED_CALLS = 65_536;

/** The sums of a row. */
interface RowSums extends Pick<CommsRow, 'operation' | 'group' | 'ranks' | 'messageBytes'> {
  count: number;
  totalMs: number;
  waitingMs: number;
  movingMs: number;
  hiddenMs: number;
}

/** The collectives of a group, for the comparison of ranks. */
interface GroupHistory {
  readonly ranks: readonly number[];
  readonly calls: (Pick<FinishedCall, 'latencyMs' | 'waitingMs' | 'idleMs'> & {
    readonly row: RowSums;
  })[];
}

/**
 * Logs the calls of this rank on a world's group and on all groups split from it: those that programs make by
 * strategies, and direct ones. For each operation, group and size of messages it says how often it was called, how long
 * it took, how fast the data moved, and how much of it computation hid. Calls go on as they do without a logger. While
 * the logger is stopped, a call only looks whether there is one.
 */
export class CommsLogger {
  readonly #world: ProcessGroup;
  readonly #options: CommsLoggerOptions;
  readonly #log = new CallLog((finished) => this.#add(finished));
  readonly #open = new Set<Promise<void>>();
  readonly #rows = new Map<string, RowSums>();
  readonly #groups = new Map<LoggedCall['group'], GroupHistory>();
  #messagesMs: Float64Array;
  #exposedMs = 0;
  #exposedFrom = 0;
  #ends: readonly (() => void)[] = [];

  /** Throws ConfigError for options that are wrong, and for a group of another package than `@shardwise/collectives`. */
  constructor(group: ProcessGroup, options: CommsLoggerOptions = {}) {
    checkOptions('commsLogger', options, rules);
    this.#world = group;
    this.#options = options;
    this.#messagesMs = new Float64Array(group.size);
    if (options.enabled ?? true) this.start();
  }

  get isLogging(): boolean {
    return this.#ends.length > 0;
  }

  /** Begins to log, or goes on. Calls that were issued before are not logged. */
  start(): void {
    if (this.isLogging) return;
    const origin = performance.timeOrigin;
    this.#ends = [
      observeCalls(this.#world, (call) => this.#follow(call)),
      subscribe(({ category, startMs, durationMs }) => {
        const from = startMs - origin;
        if (category === 'compute') this.#log.compute(from, from + durationMs);
      }),
    ];
    this.#exposedFrom = statistics().communicationMs;
  }

  /** Stops logging. What was logged stays. */
  stop(): void {
    if (!this.isLogging) return;
    for (const end of this.#ends) end();
    this.#ends = [];
    this.#exposedMs += statistics().communicationMs - this.#exposedFrom;
  }

  /** Forgets what was logged. */
  reset(): void {
    this.#log.finish();
    this.#rows.clear();
    this.#groups.clear();
    this.#messagesMs = new Float64Array(this.#world.size);
    this.#exposedMs = 0;
    this.#exposedFrom = statistics().communicationMs;
  }

  /**
   * Waits for the calls under way, prints what was logged as a table, and returns it. Its own calls are not logged.
   * With `showStraggler`, throws ConfigError if ranks have logged different numbers of calls.
   */
  async logSummary(options: LogSummaryOptions = {}): Promise<CommsSummary> {
    checkOptions('logSummary', options, summaryRules);
    const { showStraggler = false, print = this.#world.rank === 0 } = options;
    await rankState.session?.finish();
    await Promise.all(this.#open);
    const wasLogging = this.isLogging;
    this.stop();
    this.#log.finish();
    const summary = await this.#summary(showStraggler);
    if (wasLogging) this.start();
    if (print) console.log(formatSummary(summary));
    return summary;
  }

  async #summary(compares: boolean): Promise<CommsSummary> {
    const histories = [...this.#groups];
    const compared = compares
      ? await compareRanks(this.#world, {
          groups: histories.map(([{ name }, history]) => callsOf(name, history)),
          messagesMs: this.#messagesMs,
        })
      : null;
    const straggler = new Map<RowSums, number>();
    compared?.stragglerMs.forEach((times, group) => {
      const calls = histories[group]?.[1].calls ?? [];
      calls.forEach(({ row }, call) =>
        straggler.set(row, (straggler.get(row) ?? 0) + (times[call] ?? 0)),
      );
    });
    const sums = [...this.#rows.values()].toSorted(
      (a, b) =>
        operations.indexOf(a.operation) - operations.indexOf(b.operation) ||
        a.group.localeCompare(b.group) ||
        a.messageBytes - b.messageBytes,
    );
    const summary: CommsSummary = {
      rank: this.#world.rank,
      worldSize: this.#world.size,
      rows: sums.map((row) => rowOf(row, straggler.get(row) ?? null)),
      count: sums.reduce((sum, { count }) => sum + count, 0),
      bytes: sums.reduce((sum, { count, messageBytes }) => sum + count * messageBytes, 0),
      exposedMs: this.#exposedMs,
      awaited: compared?.awaited ?? null,
    };
    return Object.defineProperties(summary, printing<CommsSummary>(formatSummary));
  }

  #follow(call: ObservedCall): CallListener | null {
    const { profOps = [], profAll = profOps.length === 0 } = this.#options;
    const { operation, group, peer } = call;
    if (!profAll && !profOps.includes(operation)) return null;
    const bytes = messageBytes(call);
    const logged = this.#log.issue({ operation, group, peer, bytes, issuedMs: performance.now() });
    const { promise, resolve } = Promise.withResolvers<void>();
    this.#open.add(promise);
    return {
      started: () => {
        logged.startedMs = performance.now();
      },
      ended: (succeeded) => {
        this.#log.end(logged, performance.now(), succeeded);
        this.#open.delete(promise);
        resolve();
        if (succeeded && this.#options.verbose === true) this.#print(call, logged);
      },
    };
  }

  #add({ call, latencyMs, waitingMs, idleMs, movingMs, hiddenMs }: FinishedCall): void {
    const row = this.#rowOf(call);
    row.count += 1;
    row.totalMs += latencyMs;
    row.waitingMs += waitingMs;
    row.movingMs += movingMs;
    row.hiddenMs += hiddenMs;
    const { worldRanks } = call.group;
    if (call.peer !== undefined) {
      const peer = worldRanks[call.peer] ?? 0;
      this.#messagesMs[peer] = (this.#messagesMs[peer] ?? 0) + idleMs;
      return;
    }
    const history = this.#groups.get(call.group) ?? { ranks: worldRanks, calls: [] };
    this.#groups.set(call.group, history);
    history.calls.push({ row, latencyMs, waitingMs, idleMs });
    if (history.calls.length > 2 * COMPARED_CALLS) history.calls.splice(0, COMPARED_CALLS);
  }

  #rowOf({ operation, group, bytes }: LoggedCall): RowSums {
    const { worldRanks } = group;
    const name = nameOf(group, this.#world.size);
    const key = JSON.stringify([operation, name, worldRanks, bytes]);
    const known = this.#rows.get(key);
    if (known !== undefined) return known;
    const sums = { count: 0, totalMs: 0, waitingMs: 0, movingMs: 0, hiddenMs: 0 };
    const row = { operation, group: name, ranks: worldRanks, messageBytes: bytes, ...sums };
    this.#rows.set(key, row);
    return row;
  }

  /** Prints a call in DeepSpeed's words. */
  #print({ identity }: ObservedCall, { operation, group, bytes, issuedMs, endedMs }: LoggedCall) {
    if (this.#world.rank !== 0) return;
    const ms = (endedMs ?? issuedMs) - issuedMs;
    const { algorithmGbps, busGbps } = bandwidthOf(operation, group.worldRanks.length, bytes, ms);
    const parts = [
      `comm op: ${operation}`,
      `group: ${nameOf(group, this.#world.size)}`,
      `time (ms): ${ms.toFixed(3)}`,
      `msg size: ${sizeText(bytes)}`,
      `algbw (Gbps): ${algorithmGbps.toFixed(2)}`,
      `busbw (Gbps): ${busGbps.toFixed(2)}`,
      ...(this.#options.debug === true ? [identity?.describe() ?? 'unnamed'] : []),
    ];
    console.log(parts.join(' | '));
  }
}

/**
 * Returns a logger of the calls of this rank on a world's group, such as `context.group`, and on all groups that have a
 * split in common with it. Throws ConfigError.
 */
export function commsLogger(group: ProcessGroup, options: CommsLoggerOptions = {}): CommsLogger {
  return new CommsLogger(group, options);
}

function callsOf(name: string, { ranks, calls }: GroupHistory): GroupCalls {
  const compared = calls.slice(-COMPARED_CALLS);
  return {
    name,
    ranks,
    latencyMs: Float64Array.from(compared, ({ latencyMs }) => latencyMs),
    waitingMs: Float64Array.from(compared, ({ waitingMs }) => waitingMs),
    idleMs: Float64Array.from(compared, ({ idleMs }) => idleMs),
  };
}

function rowOf({ movingMs, ...sums }: RowSums, stragglerMs: number | null): CommsRow {
  const { operation, ranks, count, messageBytes, totalMs } = sums;
  return {
    ...sums,
    averageMs: totalMs / count,
    ...bandwidthOf(operation, ranks.length, count * messageBytes, movingMs),
    stragglerMs,
  };
}

/** The mesh axis along which the ranks of a group lie. Otherwise these ranks. */
function nameOf({ worldRanks }: LoggedCall['group'], worldSize: number): string {
  const mesh = rankState.session?.mesh;
  const ranks = worldRanks.join(', ');
  const axis = mesh?.axes.find(({ name }) => {
    const group = mesh.group(name);
    return 'worldRanks' in group && String(group.worldRanks) === String(worldRanks);
  });
  return axis?.name ?? (worldRanks.length === worldSize ? 'world' : `ranks ${ranks}`);
}
