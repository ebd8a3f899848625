import { createGroup, createLoopbackTransports } from '@shardwise/collectives';
import { MemoryStore } from '@shardwise/collectives/node';
import { LineMesh, type Transport } from '@shardwise/core';
import {
  meshSuite,
  type PlayedTraining,
  type RankOutcome,
  runSuite,
  samplerSuite,
  storeSuite,
  strategySuite,
  type Suite,
  transportSuite,
} from '@shardwise/testing';
import { describe, expect, test } from 'vitest';
import { equal, matches, rejects, throws } from '../src/suite/assertions.ts';

/** Returns the names of the tests that fail. */
async function failuresOf(suite: Suite): Promise<readonly string[]> {
  const failed: string[] = [];
  await runSuite(suite, ({ name }, { status }) => {
    if (status === 'failed') failed.push(name);
  });
  return [...new Set(failed)];
}

describe('a suite', () => {
  const testOf = (name: string, run: Suite['tests'][number]['run']): Suite['tests'][number] => ({
    groups: [],
    name,
    run,
  });

  test('is run test by test, and tells how each one ended', async () => {
    const error = new Error('out of coffee');
    const suite: Suite = {
      name: 'three tests',
      tests: [
        testOf('one', async () => {}),
        testOf('two', async () => ({ reason: 'of no concern' })),
        testOf('three', () => Promise.reject(error)),
      ],
    };
    const ended: unknown[] = [];
    const passes = await runSuite(suite, ({ name }, outcome) => ended.push([name, outcome]));
    expect(passes).toBe(false);
    expect(ended).toEqual([
      ['one', { status: 'passed' }],
      ['two', { status: 'skipped', reason: 'of no concern' }],
      ['three', { status: 'failed', error }],
    ]);
  });
});

describe('the assertions of suites', () => {
  test.each([
    [NaN, NaN],
    [
      [1, [2]],
      [1, [2]],
    ],
    [{ a: undefined }, { a: undefined }],
    [Float32Array.of(1, NaN), Float32Array.of(1, NaN)],
  ])('%j equals %j', (actual, expected) => {
    expect(() => equal(actual, expected)).not.toThrow();
  });

  test.each([
    [0, -0],
    [[1], [1, 2]],
    [{ a: 1 }, { a: 1, b: undefined }],
    [Float32Array.of(1), Int32Array.of(1)],
    [Uint8Array.of(1, 2), Uint8Array.of(1, 3)],
    [new Map(), {}],
    [undefined, null],
  ])('%j does not equal %j', (actual, expected) => {
    expect(() => equal(actual, expected, 'it')).toThrow(/^it: .* where .* is expected/);
  });

  test('tell errors that are not there, or are others', async () => {
    expect(() => throws(() => {})).toThrow('undefined where Error is expected');
    const wrong = (): never => {
      throw new TypeError('no');
    };
    expect(() => throws(wrong, RangeError)).toThrow('TypeError: no where RangeError is expected');
    expect(throws(wrong, TypeError).message).toBe('no');
    await expect(rejects(Promise.resolve())).rejects.toThrow('where Error is expected');
    expect(() => matches('abc', /d/)).toThrow('"abc" does not match /d/');
  });
});

const never = (): never => {
  throw new Error('nothing is trained here');
};
const modelOfNothing = { build: never, rows: 1, batch: never, loss: never };

describe('a contract finds', () => {
  test('a transport that has messages overtake each other', async () => {
    const reordering = (end: Transport): Transport => {
      let held: (() => Promise<void>) | null = null;
      return {
        specificationVersion: 1,
        rank: end.rank,
        size: end.size,
        recv: (from, tag, bytes) => end.recv(from, tag, bytes),
        close: (reason) => end.close(reason),
        send: async (to, tag, bytes) => {
          const copy = bytes.slice();
          const first = held;
          held = first === null && tag === 7 ? () => end.send(to, tag, copy) : null;
          if (held !== null) return;
          await end.send(to, tag, copy);
          await first?.();
        },
      };
    };
    const open = async (size: number): Promise<readonly Transport[]> =>
      createLoopbackTransports(size).map(reordering);
    expect(await failuresOf(transportSuite({ name: 'wrong', open }))).toEqual([
      'messages of one tag arrive in order',
    ]);
  });

  test('a store that forgets what was set twice', async () => {
    const open = async () => {
      const store = new MemoryStore();
      const set = store.set.bind(store);
      const known = new Set<string>();
      store.set = async (key, value) => {
        if (!known.has(key)) await set(key, value);
        known.add(key);
      };
      return { clients: [store, store] as const, end: () => store.close() };
    };
    expect(await failuresOf(storeSuite({ name: 'wrong', open }))).toEqual([
      'gives what was set, to whoever asks',
    ]);
  });

  test('samplers that all visit the same items', async () => {
    const create = (items: number, ranks: number) =>
      Array.from({ length: ranks }, () => ({
        length: Math.ceil(items / ranks),
        setEpoch: () => {},
        *[Symbol.iterator]() {
          for (let i = 0; i < this.length; i++) yield i;
        },
      }));
    const suite = samplerSuite({ name: 'wrong', create, shuffles: false, ranks: [2] });
    expect(await failuresOf(suite)).toEqual(['an epoch has the items that it should have']);
  });

  test('a mesh whose ranks are numbered from the wrong end', async () => {
    const suite = meshSuite({
      name: 'wrong',
      grids: [[{ name: 'dp', size: 2 }]],
      create: async () =>
        createLoopbackTransports(2)
          .map((transport) => new LineMesh('dp', createGroup(transport)))
          .toReversed(),
    });
    expect(await failuresOf(suite)).toContain('places ranks row by row, the last axis fastest');
  });

  const bytes = { parameterBytes: 4, gradientBytes: 4, optimizerBytes: 8, bufferBytes: 0 };
  const message = { operation: 'allReduce', axis: 'dp', bytes: 4, when: 'backward' } as const;
  const sound: PlayedTraining['reports'][0] = {
    losses: [2, 1],
    parameters: Uint8Array.of(1),
    buffers: new Uint8Array(),
    ran: [message],
    planned: [message],
    kept: bytes,
    plannedKept: bytes,
    hasStages: false,
    hasPages: false,
    shares: 1,
    hasOneModel: true,
    plan: 'plan',
  };

  test.each([
    ['nothing in a strategy that is sound', {}, []],
    [
      'a message that is not planned',
      { ran: [message, message] },
      ['a step communicates what the plan says, message by message'],
    ],
    [
      'a message that is planned and does not run',
      { ran: [] },
      ['a step communicates what the plan says, message by message'],
    ],
    [
      'a message of another phase',
      { ran: [{ ...message, when: 'forward' }] },
      ['a step communicates what the plan says, message by message'],
    ],
    ['another loss', { losses: [2, 1.1] }, ['the losses are those of one rank']],
    [
      'memory that is not planned',
      { kept: { ...bytes, gradientBytes: 8 } },
      ['the states take the memory that the plan says'],
    ],
  ] as const)('%s', async (_, changes, failures) => {
    const report = { ...sound, ...changes };
    const found: PlayedTraining = { name: 'mine', model: 'a model', reports: [report, report] };
    const suite = strategySuite({
      name: 'mine',
      cases: {
        mine: {
          strategy: () => ({ specificationVersion: 1, name: 'mine', plan: never }),
          models: { 'a model': modelOfNothing },
        },
      },
      sizes: [1],
      run: async (__, { kind }): Promise<readonly RankOutcome[]> => [
        { status: 'fulfilled', value: kind === 'alone' ? [[2, 1]] : [found] },
      ],
    });
    expect(await failuresOf(suite)).toEqual(failures);
  });
});
