import {
  createGroup,
  createLoopbackTransports,
  createThreadsWorld,
  FlightRecorder,
  joinThreadsWorld,
  recordCalls,
  singleGroup,
} from '@shardwise/collectives';
import { ConfigError, type ProcessGroup } from '@shardwise/core/spec';
import { describe, expect, it } from 'vitest';
import { StackSampler, userFrames } from '../src/recorder/stack-sampler.ts';
import { RingBuffer } from '../src/recorder/flight-recorder.ts';

interface Recorded {
  readonly groups: readonly ProcessGroup[];
  readonly recorders: readonly FlightRecorder[];
}

/** The kinds of worlds. All ranks are on this thread. */
const kinds = {
  threads: (size: number) => {
    const world = createThreadsWorld({ size, arenaBytes: 65536 });
    return Array.from({ length: size }, (_, rank) => joinThreadsWorld(world, rank));
  },
  createGroup: (size: number) =>
    createLoopbackTransports(size).map((transport) => createGroup(transport)),
} satisfies Record<string, (size: number) => readonly ProcessGroup[]>;

type Kind = keyof typeof kinds;

function record(kind: Kind, size: number, ringSize = 100): Recorded {
  const groups = kinds[kind](size);
  const recorders = groups.map((group) => {
    const recorder = new FlightRecorder({ rank: group.rank, worldSize: size, size: ringSize });
    recordCalls(group, recorder);
    return recorder;
  });
  return { groups, recorders };
}

const floats = (count: number): { bytes: Uint8Array; dtype: 'f32' } => ({
  bytes: new Uint8Array(4 * count),
  dtype: 'f32',
});

describe.each(['threads', 'createGroup'] as const)('the record of a %s group', (kind) => {
  it('shows each call with its sizes, state, time limit and call site', async () => {
    const { groups, recorders } = record(kind, 2);
    await Promise.all(
      groups.map((group) => group.allReduce(floats(3), 'avg', { timeoutMs: 5000 })),
    );
    await Promise.all(
      groups.map((group) => group.gather(floats(2), group.rank === 1 ? floats(4) : undefined, 1)),
    );
    const [first, second] = recorders.map((recorder) => recorder.dump());
    expect(first?.pg_config).toEqual({ 0: { name: 'world', desc: '2 ranks', ranks: '[0, 1]' } });
    expect(first?.pg_status).toEqual({
      0: {
        last_enqueued_collective: 1,
        last_started_collective: 1,
        last_completed_collective: 1,
      },
    });
    expect(first?.entries).toMatchObject([
      {
        record_id: 0,
        collective_seq_id: 0,
        process_group: ['world', '2 ranks'],
        profiling_name: 'shardwise:allReduce',
        input_sizes: [[3]],
        output_sizes: [[3]],
        input_dtypes: ['f32'],
        reduce_op: 'avg',
        state: 'completed',
        retired: true,
        timeout_ms: 5000,
        is_p2p: false,
      },
      { record_id: 1, collective_seq_id: 1, input_sizes: [[2]], output_sizes: [], root: 1 },
    ]);
    expect(second?.entries[1]).toMatchObject({ input_sizes: [[2]], output_sizes: [[4]] });
    expect(first?.entries[0]?.frames[0]?.filename).toBe(import.meta.filename);
    const [entry] = first?.entries ?? [];
    expect(entry?.time_discovered_started_ns).toBeGreaterThanOrEqual(entry?.time_created_ns ?? 0);
    expect(entry?.time_discovered_completed_ns).toBeGreaterThanOrEqual(
      entry?.time_discovered_started_ns ?? Infinity,
    );
  });

  it('names the groups of a split alike on their ranks, with the ranks of the world', async () => {
    const { groups, recorders } = record(kind, 3);
    const parts = await Promise.all(
      groups.map((group) => group.split(group.rank === 1 ? 1 : 0, -group.rank)),
    );
    await Promise.all(parts.flatMap((part) => part?.barrier() ?? []));
    expect(recorders.map((recorder) => recorder.dump().pg_config[1])).toEqual([
      { name: 'world/0:0', desc: '2 ranks', ranks: '[2, 0]' },
      { name: 'world/0:1', desc: '1 ranks', ranks: '[1]' },
      { name: 'world/0:0', desc: '2 ranks', ranks: '[2, 0]' },
    ]);
    expect(recorders[2]?.dump().entries.map(({ profiling_name }) => profiling_name)).toEqual([
      'shardwise:split',
      'shardwise:barrier',
    ]);
  });

  it('numbers messages by peer and tag', async () => {
    const { groups, recorders } = record(kind, 2);
    const [sender, receiver] = groups;
    await Promise.all([
      sender?.send(floats(1), 1, { tag: 5 }),
      sender?.send(floats(2), 1, { tag: 5 }),
      receiver?.recv(floats(1), 0, { tag: 5 }),
      receiver?.recv(floats(2), 0, { tag: 5 }),
    ]);
    expect(recorders[0]?.dump().entries).toMatchObject([
      { profiling_name: 'shardwise:send 0->1', message: { peer: 1, tag: 5, number: 0 } },
      { profiling_name: 'shardwise:send 0->1', message: { peer: 1, tag: 5, number: 1 } },
    ]);
    expect(recorders[1]?.dump().entries[1]).toMatchObject({
      profiling_name: 'shardwise:recv 1<-0',
      is_p2p: true,
      input_sizes: [],
      output_sizes: [[2]],
      p2p_seq_id: 1,
      state: 'completed',
    });
  });

  it('keeps the latest calls, and the status of all', async () => {
    const { groups, recorders } = record(kind, 2, 3);
    for (let call = 0; call < 8; call += 1) {
      await Promise.all(groups.map((group) => group.barrier()));
    }
    const dump = recorders[0]?.dump();
    expect(dump?.entries.map((entry) => entry.collective_seq_id)).toEqual([5, 6, 7]);
    expect(dump?.pg_status['0']?.last_enqueued_collective).toBe(7);
  });

  it('is ready at the first failure, before the caller learns of it, and names who is missing', async () => {
    const events: string[] = [];
    const [group] = kinds[kind](2);
    const recorder = new FlightRecorder({
      rank: 0,
      worldSize: 2,
      onFailure: ({ rank }) => events.push(`recorder of rank ${rank}`),
    });
    if (group === undefined) throw new RangeError('no group');
    recordCalls(group, recorder);
    const calls = [group.barrier({ timeoutMs: 20 }), group.barrier({ timeoutMs: 10_000 })];
    await Promise.all(calls.map((call) => call.catch(() => events.push('caller'))));
    expect(events).toEqual(['recorder of rank 0', 'caller', 'caller']);
    const { failure, entries } = recorder.dump();
    expect(failure).toMatchObject({
      code: 'COLLECTIVE_TIMEOUT',
      record_id: 0,
      missing_ranks: [1],
    });
    expect(entries.map(({ state }) => state)).toEqual(['scheduled', 'scheduled']);
  });
});

describe('a flight recorder', () => {
  it.each([0, 1.5, 100_001, Number.NaN])('does not keep %d calls', (size) => {
    expect(() => new FlightRecorder({ rank: 0, worldSize: 1, size })).toThrow(ConfigError);
  });

  it('is not given a group whose calls it has not seen from the first', async () => {
    const group = singleGroup();
    await group.barrier();
    const recorder = new FlightRecorder({ rank: 0, worldSize: 1 });
    expect(() => recordCalls(group, recorder)).toThrow(/it has been called already/);
  });

  it('keeps the latest values of any number, oldest first', () => {
    const ring = new RingBuffer<number>(3);
    const replaced = [1, 2, 3, 4, 5].map((value) => ring.push(value));
    expect(replaced).toEqual([undefined, undefined, undefined, 1, 2]);
    expect(ring.values()).toEqual([3, 4, 5]);
  });
});

describe('call sites', () => {
  it('are taken 64 at once, then one each half millisecond', () => {
    const capture = new StackSampler();
    const takenAt = (ms: number, calls: number): number =>
      Array.from({ length: calls }, () => capture.take(ms)).filter((site) => site !== undefined)
        .length;
    expect(takenAt(1000, 100)).toBe(64);
    expect(takenAt(1000.4, 100)).toBe(0);
    expect(takenAt(1005, 100)).toBe(10);
    expect(takenAt(9000, 100)).toBe(64);
  });

  it('leave the limit of stack traces as it was', () => {
    const limit = Error.stackTraceLimit;
    new StackSampler().take(0);
    expect(Error.stackTraceLimit).toBe(limit);
  });

  it('are read from any stack, without the frames of Node and of these packages', () => {
    const here = new URL('../src/call/checked-group.ts', import.meta.url).href;
    const stack = [
      'Error: at home (not a frame)',
      `    at CheckedGroup.allReduce (${here}:10:2)`,
      '    at async step (file:///home/a%20b/train.ts:12:9)',
      '    at file:///home/train.ts:3:1',
      '    at /home/old.cjs:7:7',
      '    at node:internal/process/task_queues:95:5',
      '    at new Promise (<anonymous>)',
    ].join('\n');
    expect(userFrames({ stack })).toEqual([
      { name: 'step', filename: '/home/a b/train.ts', line: 12 },
      { name: '<anonymous>', filename: '/home/train.ts', line: 3 },
      { name: '<anonymous>', filename: '/home/old.cjs', line: 7 },
    ]);
  });
});
