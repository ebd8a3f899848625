import { createGroup, createLoopbackTransports, singleGroup } from '@shardwise/collectives';
import { ConfigError, setRank } from '@shardwise/core';
import type { ProcessGroup } from '@shardwise/core/extend';
import { interpreter } from '@shardwise/testing';
import { onRanks } from '@shardwise/testing/node';
import { profiler } from 'shardwise';
import { afterEach, beforeAll, beforeEach, describe, expect, it, vi } from 'vitest';
import { bandwidthOf } from '../src/communication/bandwidth.ts';
import { CallLog, type FinishedCall } from '../src/communication/call-log.ts';
import { formatSummary } from '../src/communication/comms-summary.ts';
import {
  ofStrategies,
  rows,
  steps,
  type StrategyName,
  widths,
  withSleeper,
  withUnequalStart,
} from './comms-logger-ranks.ts';

function floats(count: number): { bytes: Uint8Array; dtype: 'f32' } {
  return { bytes: new Uint8Array(4 * count), dtype: 'f32' };
}

const begun: profiler.CommsLogger[] = [];

/** A logger that is stopped after the test, because files of tests share a thread. */
function begin(
  group: ProcessGroup,
  options: profiler.CommsLoggerOptions = {},
): profiler.CommsLogger {
  const logger = profiler.commsLogger(group, options);
  begun.push(logger);
  return logger;
}

afterEach(() => {
  vi.restoreAllMocks();
  for (const logger of begun.splice(0)) logger.stop();
});

describe('the calls that two ranks log in a step', () => {
  type Calls = readonly (readonly [operation: string, bytes: number, count: number])[];
  let found: readonly ReadonlyMap<string, profiler.CommsSummary>[] = [];
  beforeAll(async () => {
    found = await onRanks(2, ({ group }) => ofStrategies(group));
  });

  /** The rows of a rank, with the calls of one step. */
  const callsOf = (name: StrategyName, rank: number): Calls =>
    (found[rank]?.get(name)?.rows ?? []).map(({ operation, messageBytes, count }) => [
      operation,
      messageBytes,
      count / steps,
    ]);

  const [a, b, c, d] = widths;
  const [first, second, third] = [4 * a * b, 4 * b * c, 4 * c * d];

  it('are one all-reduce of all gradients under ddp', () => {
    for (const rank of [0, 1]) {
      expect(callsOf('ddp', rank)).toEqual([['allReduce', first + second + third, 1]]);
    }
  });

  it.each(['zero', 'fsdp'] as const)(
    'are an all-gather for each use of a layer and a reduce-scatter of each gradient under %s',
    (name) => {
      // The first layer is used once, because nobody asks for the gradient of the model's input.
      expect(first).toBe(second);
      for (const rank of [0, 1]) {
        expect(callsOf(name, rank)).toEqual([
          ['allGather', third, 2],
          ['allGather', first, 1 + 2],
          ['reduceScatter', third, 1],
          ['reduceScatter', first, 2],
        ]);
      }
    },
  );

  it('are one all-reduce of the activations after a row-wise layer under tensor parallelism', () => {
    for (const rank of [0, 1]) {
      expect(callsOf('tensorParallel', rank)).toEqual([['allReduce', 4 * rows * c, 1]]);
    }
  });

  it('are an activation and a gradient for each microbatch, and the loss, under a pipeline', () => {
    const microbatches = 2;
    const activation = (4 * rows * b) / microbatches;
    expect(callsOf('pipeline', 0)).toEqual([
      ['send', activation, microbatches],
      ['recv', 4, 1],
      ['recv', activation, microbatches],
    ]);
    expect(callsOf('pipeline', 1)).toEqual([
      ['send', 4, 1],
      ['send', activation, microbatches],
      ['recv', activation, microbatches],
    ]);
  });

  it('are named after the axis of the mesh, and add up to the totals', () => {
    const axes = { ddp: 'dp', zero: 'dp', fsdp: 'dp', tensorParallel: 'tp', pipeline: 'pp' };
    for (const [name, axis] of Object.entries(axes)) {
      const summary = found[0]?.get(name);
      expect(new Set(summary?.rows.map(({ group }) => group))).toEqual(new Set([axis]));
      const sum = (pick: (row: profiler.CommsRow) => number): number =>
        summary?.rows.reduce((total, row) => total + pick(row), 0) ?? Number.NaN;
      expect(summary?.count).toBe(sum(({ count }) => count));
      expect(summary?.bytes).toBe(sum(({ count, messageBytes }) => count * messageBytes));
    }
  });
});

describe('ranks that compare their calls', () => {
  it('name the rank that was waited for', async () => {
    const summaries = await onRanks(2, ({ group }) => withSleeper(group));
    for (const { awaited, rank, rows: [row] = [] } of summaries) {
      expect(awaited?.map((each) => each.rank)).toEqual([1, 0]);
      const [late] = awaited ?? [];
      expect(late?.byRank[0]).toBe(late?.awaitedMs);
      expect(late?.byRank[1]).toBe(0);
      expect((row?.stragglerMs ?? Number.NaN) > 0).toBe(rank === 0);
    }
    const text = formatSummary(summaries[0] ?? expect.fail());
    expect(text).toMatch(/^Rank 1 was waited for: [\d.]+ ms \(rank 0 [\d.]+ ms\)\./m);
    expect(text).not.toContain('Rank 0 was waited for');
  });

  it('are refused if they have logged different numbers of calls', async () => {
    const errors = await onRanks(2, ({ group }) => withUnequalStart(group));
    for (const error of errors) {
      expect(error).toContain('on the group world, the ranks 0, 1 have logged 2, 1 calls');
    }
  });
});

describe('the time of a call', () => {
  const group = { name: 'world', rank: 0, worldRanks: [0, 1] };
  const finish = (fill: (log: CallLog) => void): readonly FinishedCall[] => {
    const finished: FinishedCall[] = [];
    const log = new CallLog((call) => finished.push(call));
    fill(log);
    log.finish();
    return finished;
  };
  const times = ({ latencyMs, waitingMs, idleMs, movingMs, hiddenMs }: FinishedCall) => ({
    latencyMs,
    waitingMs,
    idleMs,
    movingMs,
    hiddenMs,
  });
  const call = (issuedMs: number, peer?: number) => ({
    operation: peer === undefined ? ('allReduce' as const) : ('recv' as const),
    group,
    peer,
    bytes: 8,
    issuedMs,
  });

  it('is waiting until all ranks have come, and then moving', () => {
    const [found] = finish((log) => {
      const logged = log.issue(call(10));
      logged.startedMs = 40;
      log.end(logged, 45, true);
    });
    expect(found && times(found)).toEqual({
      latencyMs: 35,
      waitingMs: 30,
      idleMs: 30,
      movingMs: 5,
      hiddenMs: 0,
    });
  });

  it('is hidden where the rank computes, also if that is known only after the call has ended', () => {
    const [found] = finish((log) => {
      log.compute(0, 9);
      const logged = log.issue(call(10));
      log.compute(8, 12);
      log.compute(20, 30);
      logged.startedMs = 40;
      log.end(logged, 45, true);
      log.compute(44, 60);
      log.compute(60, 70);
    });
    expect(found && times(found)).toEqual({
      latencyMs: 35,
      waitingMs: 30,
      idleMs: 30 - 2 - 10,
      movingMs: 5,
      hiddenMs: 2 + 10 + 1,
    });
  });

  it('does not count twice while a call waits for the one before it', () => {
    const found = finish((log) => {
      const [early, late] = [log.issue(call(10)), log.issue(call(11))];
      early.startedMs = 30;
      log.end(early, 50, true);
      late.startedMs = 51;
      log.end(late, 54, true);
    });
    expect(found.map(times)).toMatchObject([
      { latencyMs: 40, waitingMs: 20, movingMs: 20 },
      { latencyMs: 43, waitingMs: 1, movingMs: 3 },
    ]);
  });

  it('is waiting for the sender while a message is received', () => {
    const [found] = finish((log) => {
      const logged = log.issue(call(10, 1));
      log.compute(12, 15);
      log.end(logged, 20, true);
    });
    expect(found && times(found)).toEqual({
      latencyMs: 10,
      waitingMs: 10,
      idleMs: 7,
      movingMs: 10,
      hiddenMs: 3,
    });
  });

  it('does not count if the call fails', () => {
    expect(finish((log) => log.end(log.issue(call(10)), 20, false))).toEqual([]);
  });
});

describe('bandwidth', () => {
  // 1,000,000 bytes in 2 ms are 4 gigabits per second.
  it.each([
    ['allReduce', 4, 4 * ((2 * 3) / 4)],
    ['allGather', 4, 4 * (3 / 4)],
    ['reduceScatter', 4, 4 * (3 / 4)],
    ['allToAll', 4, 4 * (3 / 4)],
    ['broadcast', 4, 4],
    ['reduce', 4, 4],
    ['send', 4, 4],
  ] as const)(
    'of %s is that of the message, times the factor of nccl-tests',
    (operation, alg, bus) => {
      const found = bandwidthOf(operation, 4, 1_000_000, 2);
      expect(found.algorithmGbps).toBeCloseTo(alg, 12);
      expect(found.busGbps).toBeCloseTo(bus, 12);
    },
  );

  it('on a bus is 0 for a rank alone, and 0 for messages that take no time', () => {
    expect(bandwidthOf('allReduce', 1, 1000, 1).busGbps).toBe(0);
    expect(bandwidthOf('allReduce', 2, 1000, 0)).toEqual({ algorithmGbps: 0, busGbps: 0 });
  });
});

describe('a logger', () => {
  const world = () => createLoopbackTransports(2).map((transport) => createGroup(transport));

  // Groups are named by the mesh of the rank, which may be that of a file of tests before this one.
  beforeEach(() => setRank({ device: interpreter() }));

  it('counts the bytes of the whole where each rank has a part', async () => {
    const groups = world();
    const loggers = groups.map((group) => begin(group));
    await Promise.all(groups.map((group) => group.allGather(floats(3), floats(6))));
    await Promise.all(groups.map((group) => group.reduceScatter(floats(6), floats(3), 'sum')));
    await Promise.all(groups.map((group) => group.allToAll(floats(6), floats(6))));
    const summary = await loggers[0]?.logSummary({ print: false });
    expect(summary?.rows.map(({ operation, messageBytes }) => [operation, messageBytes])).toEqual([
      ['allGather', 24],
      ['reduceScatter', 24],
      ['allToAll', 24],
    ]);
  });

  it('logs groups that were split before and after it began', async () => {
    const groups = world();
    const before = await Promise.all(groups.map((group) => group.split(0, -group.rank)));
    const logger = begin(groups[0] ?? singleGroup());
    const after = await Promise.all(groups.map((group) => group.split(group.rank, 0)));
    await Promise.all([...before, ...after].flatMap((group) => group?.barrier() ?? []));
    const { rows: found } = await logger.logSummary({ print: false });
    expect(found.map(({ operation, group, ranks }) => [operation, group, ranks])).toEqual([
      ['barrier', 'ranks 0', [0]],
      ['barrier', 'world', [1, 0]],
      ['split', 'world', [0, 1]],
    ]);
  });

  it('logs nothing before start(), after stop() and of its own calls, and forgets at reset()', async () => {
    const groups = world();
    const meet = () => Promise.all(groups.map((group) => group.barrier()));
    const loggers = groups.map((group) => begin(group, { enabled: false }));
    const summarize = () =>
      Promise.all(loggers.map((each) => each.logSummary({ showStraggler: true, print: false })));
    await meet();
    expect((await summarize())[0]?.count).toBe(0);
    for (const each of loggers) each.start();
    await meet();
    await summarize();
    expect((await summarize())[0]?.count).toBe(1);
    for (const each of loggers) each.stop();
    await meet();
    expect((await summarize())[0]?.count).toBe(1);
    for (const each of loggers) each.reset();
    expect((await summarize())[0]).toMatchObject({ count: 0, bytes: 0, rows: [] });
  });

  it('logs only the operations that it is asked for', async () => {
    const groups = world();
    const logger = begin(groups[0] ?? singleGroup(), { profOps: ['broadcast'] });
    await Promise.all(groups.map((group) => group.broadcast(floats(2), 0)));
    await Promise.all(groups.map((group) => group.barrier()));
    const { rows: found } = await logger.logSummary({ print: false });
    expect(found.map(({ operation, count }) => [operation, count])).toEqual([['broadcast', 1]]);
  });

  it('prints each call on rank 0 in the words of DeepSpeed, and with debug what the call is', async () => {
    const printed = vi.spyOn(console, 'log').mockReturnValue();
    const group = singleGroup();
    const logger = begin(group, { verbose: true, debug: true });
    const identity = { hash: 1, describe: () => "the gradients of 'weight'" };
    await group.allReduce(floats(512), 'sum', { identity });
    await logger.logSummary();
    expect(printed.mock.calls.map(([line]: unknown[]) => line)).toEqual([
      expect.stringMatching(
        /^comm op: allReduce \| group: world \| time \(ms\): [\d.]+ \| msg size: 2 KB \| algbw \(Gbps\): [\d.]+ \| busbw \(Gbps\): 0\.00 \| the gradients of 'weight'$/,
      ),
      expect.stringContaining('Communication of rank 0 of 1: 1 calls, 2 KB.'),
    ]);
  });

  it('prints a table of fixed columns', () => {
    const row = {
      operation: 'allReduce' as const,
      group: 'dp',
      ranks: [0, 1],
      messageBytes: 678.86 * 2 ** 20,
      count: 10,
      totalMs: 1000,
      averageMs: 100,
      waitingMs: 40,
      hiddenMs: 750,
      algorithmGbps: 56.9,
      busGbps: 56.9,
      stragglerMs: 12.5,
    };
    const text = formatSummary({
      rank: 0,
      worldSize: 2,
      rows: [row, { ...row, operation: 'send', stragglerMs: null }],
      count: 20,
      bytes: 20 * row.messageBytes,
      exposedMs: 250,
      awaited: [
        { rank: 1, awaitedMs: 40, byRank: [40, 0], waitedMs: 0 },
        { rank: 0, awaitedMs: 0, byRank: [0, 0], waitedMs: 40 },
      ],
    });
    expect(text).toBe(
      [
        'Communication of rank 0 of 2: 20 calls, 13.26 GB. Programs waited 250.00 ms for it.',
        'Comm. Op   Group  Message Size  Count  Total Latency(ms)  Avg Latency(ms)  Waiting(ms)  Hidden  algbw (Gbps)  busbw (Gbps)  Straggler(ms)',
        'allReduce  dp        678.86 MB     10            1000.00          100.000        40.00    75 %         56.90         56.90          12.50',
        'send       dp        678.86 MB     10            1000.00          100.000        40.00    75 %         56.90         56.90              -',
        'Rank 1 was waited for: 40.00 ms (rank 0 40.00 ms). It waited 0.00 ms itself.',
      ].join('\n'),
    );
  });

  it('refuses options that it does not know, operations that there are not, and groups of others', () => {
    expect(() => profiler.commsLogger(singleGroup(), JSON.parse('{"prof_all":true}'))).toThrow(
      ConfigError,
    );
    expect(() => profiler.commsLogger(singleGroup(), JSON.parse('{"profOps":["sum"]}'))).toThrow(
      /profOps/,
    );
    const foreign = { ...singleGroup(), size: 1, rank: 0 };
    expect(() => profiler.commsLogger(foreign)).toThrow(/of another kind/);
  });
});
