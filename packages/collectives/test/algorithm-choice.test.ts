import {
  createGroup,
  createLoopbackTransports,
  type AlgorithmTable,
  type CreateGroupOptions,
} from '@shardwise/collectives';
import {
  algorithmTableOf,
  measureAlgorithms,
  parseAlgorithmTable,
  type AlgorithmMeasurement,
} from '@shardwise/collectives/node';
import { ConfigError, type DType, type ReduceOp } from '@shardwise/core/spec';
import { describe, expect, it } from 'vitest';
import type { CallRecord } from '../src/call/record.ts';
import { AlgorithmChoice } from '../src/group/selection/algorithm-choice.ts';
import { parseAlgorithmSetting } from '../src/group/selection/algorithm-setting.ts';
import { algorithms } from '../src/group/selection/algorithms.ts';
import { mpiAlgorithmTable } from '../src/mpi/mpi-group.ts';
import { defaultAlgorithmTable } from '../src/group/selection/default-algorithm-table.ts';

const table: AlgorithmTable = {
  madeBy: 'a test',
  machine: 'none',
  rules: [
    { operation: 'allReduce', hosts: 'one', ranks: 2, upToBytes: 100, algorithm: 'direct' },
    { operation: 'allReduce', hosts: 'one', ranks: 2, upToBytes: null, algorithm: 'ring' },
    { operation: 'allReduce', hosts: 'one', ranks: 2, upToBytes: null, algorithm: 'two-phase' },
    { operation: 'allReduce', hosts: 'one', ranks: 4, upToBytes: null, algorithm: 'direct' },
    {
      operation: 'allReduce',
      hosts: 'several',
      ranks: 2,
      upToBytes: null,
      algorithm: 'hierarchical',
    },
    { operation: 'broadcast', hosts: 'one', ranks: 2, upToBytes: 100, algorithm: 'chain' },
  ],
};

function allReduceOf(elements: number, dtype: DType = 'f32', reduce: ReduceOp = 'sum'): CallRecord {
  const operation = 'allReduce';
  return {
    operation,
    dtype,
    elements,
    root: undefined,
    reduce,
    splits: undefined,
    pass: undefined,
    identity: undefined,
    member: undefined,
  };
}

function chosen(record: CallRecord, hosts: readonly (readonly number[])[], setting = ''): string {
  const choice = new AlgorithmChoice(hosts, parseAlgorithmSetting(setting), table);
  return choice.algorithmFor(record).name;
}

describe('the choice of an algorithm', () => {
  it('follows the first rule of the table whose bytes fit', () => {
    expect(chosen(allReduceOf(25), [[0, 1]])).toBe('direct');
    expect(chosen(allReduceOf(26), [[0, 1]])).toBe('two-phase');
  });

  it('gives up rank order only where that changes nothing', () => {
    expect(chosen(allReduceOf(1000, 'i32'), [[0, 1]])).toBe('ring');
    expect(chosen(allReduceOf(1000, 'f32', 'max'), [[0, 1]])).toBe('ring');
    expect(chosen(allReduceOf(1000, 'f64', { premultipliedSum: 2 }), [[0, 1]])).toBe('two-phase');
    expect(chosen(allReduceOf(1000, 'bf16', 'avg'), [[0, 1]])).toBe('two-phase');
  });

  it('takes the rules for the most ranks that the group has, or else for the fewest', () => {
    expect(chosen(allReduceOf(1000), [[0, 1, 2]])).toBe('two-phase');
    expect(chosen(allReduceOf(1000), [[0, 1, 2, 3, 4]])).toBe('direct');
    expect(chosen(allReduceOf(1000), [[0]])).toBe('two-phase');
  });

  it('is hierarchical where hosts follow each other', () => {
    expect(
      chosen(allReduceOf(1), [
        [0, 1],
        [2, 3],
      ]),
    ).toBe('hierarchical');
    expect(
      chosen(allReduceOf(1), [
        [0, 2],
        [1, 3],
      ]),
    ).toBe('two-phase');
  });

  it('sends parts to ranks of other hosts together where hosts have several', () => {
    const allToAll: CallRecord = { ...allReduceOf(8), operation: 'allToAll', reduce: undefined };
    const of = (hosts: readonly (readonly number[])[]): string =>
      new AlgorithmChoice(hosts, new Map(), defaultAlgorithmTable).algorithmFor(allToAll).name;
    const four = (host: number): number[] => [0, 1, 2, 3].map((place) => host * 4 + place);
    expect(of([four(0), four(1)])).toBe('hierarchical');
    expect(of([[...four(0), ...four(1)]])).toBe('pairwise');
    expect(of([0, 1, 2, 3, 4, 5, 6, 7].map((rank) => [rank]))).toBe('pairwise');
    expect(of([[0, 1], [2]])).toBe('pairwise');
  });

  it('is the first algorithm where no rule fits', () => {
    const broadcast: CallRecord = { ...allReduceOf(1000), operation: 'broadcast' };
    expect(chosen(broadcast, [[0, 1]])).toBe('tree');
    expect(chosen({ ...broadcast, operation: 'reduce' }, [[0, 1]])).toBe('direct');
  });

  it('is that of the setting where the hosts allow it', () => {
    expect(chosen(allReduceOf(1), [[0, 1]], 'ring')).toBe('ring');
    expect(chosen(allReduceOf(1), [[0, 1]], 'broadcast=chain, allReduce=halving-doubling')).toBe(
      'halving-doubling',
    );
    expect(chosen(allReduceOf(1), [[0, 1]], 'hierarchical')).toBe('direct');
  });

  it('passes over native algorithms where a group has none', () => {
    const barrier = { ...allReduceOf(1), operation: 'barrier', reduce: undefined } as const;
    const of = (isNative: boolean): string =>
      new AlgorithmChoice([[0, 1]], new Map(), mpiAlgorithmTable, isNative).algorithmFor(barrier)
        .name;
    expect(of(true)).toBe('meeting');
    expect(of(false)).toBe('dissemination');
  });

  it.each([defaultAlgorithmTable, mpiAlgorithmTable])('has defaults that all exist', (table) => {
    expect(parseAlgorithmTable(table)).toEqual(table);
    for (const [operation, [first]] of Object.entries(algorithms)) {
      expect(first.rankOrder, operation).toBe(true);
      expect(first.supports([[0]], false), operation).toBe(true);
    }
  });
});

describe('a setting of algorithms', () => {
  it.each(['rings', 'allReduce=tree', 'allreduce=ring', 'broadcast=ring,allReduce=ring'])(
    'refuses %j, with the names that there are',
    (setting) => {
      const [transport] = createLoopbackTransports(1);
      expect(() => createGroup(transport!, { algorithm: setting })).toThrow(ConfigError);
      expect(() => createGroup(transport!, { algorithm: setting })).toThrow(
        /allReduce=two-phase\|direct\|ring\|halving-doubling\|hierarchical/,
      );
    },
  );

  it('of the environment counts where no option is given', () => {
    const [transport] = createLoopbackTransports(1);
    process.env.SHARDWISE_ALGORITHM = 'allReduce=nothing';
    try {
      expect(() => createGroup(transport!)).toThrow(/allReduce has no algorithm nothing/);
      expect(() => createGroup(transport!, { algorithm: 'ring' })).not.toThrow();
    } finally {
      delete process.env.SHARDWISE_ALGORITHM;
    }
  });

  it('that differs between ranks is a mismatch that names both algorithms', async () => {
    const [first, second] = createLoopbackTransports(2);
    const options: readonly CreateGroupOptions[] = [{ algorithm: 'ring' }, { algorithm: 'direct' }];
    const groups = [first!, second!].map((transport, rank) =>
      createGroup(transport, options[rank]),
    );
    const calls = groups.map((group) =>
      group.allReduce({ bytes: new Uint8Array(8), dtype: 'f32' }, 'sum'),
    );
    for (const { status, ...result } of await Promise.allSettled(calls)) {
      expect(status).toBe('rejected');
      expect(result).toHaveProperty('reason.code', 'COLLECTIVE_MISMATCH');
      expect(String('reason' in result ? result.reason : '')).toMatch(
        /allReduce\(sum, f32 \[2\]\) by ring.*allReduce\(sum, f32 \[2\]\) by direct/,
      );
    }
  });

  it('moves what the algorithm moves', async () => {
    const transports = createLoopbackTransports(3);
    await Promise.all(
      transports.map((transport) =>
        createGroup(transport, { algorithm: 'ring', verify: false }).allReduce(
          { bytes: new Uint8Array(12), dtype: 'f32' },
          'sum',
        ),
      ),
    );
    expect(transports.map(({ traffic }) => traffic.bytesTo)).toEqual([
      [0, 16, 0],
      [0, 0, 16],
      [16, 0, 0],
    ]);
  });
});

describe('a table of algorithms', () => {
  const at = (algorithm: string, bytes: number, microseconds: number): AlgorithmMeasurement => ({
    operation: 'allReduce',
    algorithm,
    rankOrder: algorithm !== 'ring',
    hosts: 'one',
    ranks: 2,
    bytes,
    microseconds,
  });
  const about = { madeBy: 'a test', machine: 'none' };

  it('chooses what was fastest, with rank order and without', () => {
    const made = algorithmTableOf(
      [
        at('direct', 1024, 10),
        at('two-phase', 1024, 20),
        at('ring', 1024, 15),
        at('direct', 4096, 30),
        at('two-phase', 4096, 20),
        at('ring', 4096, 10),
      ],
      about,
    );
    expect(made.rules.map(({ upToBytes, algorithm }) => [upToBytes, algorithm])).toEqual([
      [2048, 'direct'],
      [null, 'ring'],
      [null, 'two-phase'],
    ]);
    expect(parseAlgorithmTable(JSON.parse(JSON.stringify(made)))).toEqual(made);
  });

  it('does not change its choice for less than the noise', () => {
    const made = algorithmTableOf(
      [
        at('direct', 1024, 10),
        at('two-phase', 1024, 20),
        at('direct', 4096, 100),
        at('two-phase', 4096, 97),
      ],
      about,
    );
    expect(made.rules.map(({ algorithm }) => algorithm)).toEqual(['direct']);
  });

  it.each([
    { rules: [{ ...table.rules[0], algorithm: 'tree' }] },
    { rules: [{ ...table.rules[0], upToBytes: -1 }] },
    { rules: 'none' },
    {},
  ])('is refused as %j', (value) => {
    expect(() => parseAlgorithmTable({ ...about, ...value })).toThrow(ConfigError);
  });

  it('comes from measuring each algorithm that there is for the hosts', async () => {
    const measured = await Promise.all(
      createLoopbackTransports(2).map((transport) =>
        measureAlgorithms(transport, { hosts: [0, 1], sizesBytes: [8, 64], rounds: 1 }),
      ),
    );
    const names = measured[0]!
      .filter(({ operation, bytes }) => operation === 'allReduce' && bytes === 8)
      .map(({ algorithm }) => algorithm);
    expect(names).toEqual(algorithms.allReduce.map(({ name }) => name));
    expect(parseAlgorithmTable(algorithmTableOf(measured[0]!, about)).rules).not.toHaveLength(0);
  });
});
