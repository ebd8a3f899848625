import type { StepSettings } from '@shardwise/core/spec';
import { describe, expect, it } from 'vitest';
import type { GroupCall } from '../src/call/calls.ts';
import {
  decodeRecord,
  encodeRecord,
  findMismatch,
  findSettingsMismatch,
  recordFields,
} from '../src/call/record-codec.ts';
import type { CallRecord } from '../src/call/record.ts';
import { IssuedCall } from '../src/call/issued-call.ts';
import { settingsError } from '../src/call/settings-error.ts';

const limits = { timeoutMs: 1000, signal: undefined };
const ignore = (): void => {};

/** Issues a call and does nothing else. */
function issue(
  ofCall: { readonly timeoutMs: number; readonly signal: AbortSignal | undefined },
  interrupt: (reason: unknown) => void,
): IssuedCall<GroupCall, undefined> {
  const bytes = new Uint8Array(0);
  const call = { record: records[0]!, input: bytes, output: bytes };
  return new IssuedCall(call, 0, ofCall, { rank: 0, interrupt }, undefined);
}

it('calls that are done when they are issued share one promise', async () => {
  const [first, second] = [issue(limits, ignore), issue(limits, ignore)];
  first.resolve();
  second.resolve();
  expect(first.promise).toBe(second.promise);
  await expect(first.promise).resolves.toBeUndefined();
});

it('the time of a call begins when somebody waits for it', () => {
  const issued = issue(limits, ignore);
  expect(issued.deadline).toBe(Infinity);
  const before = performance.now();
  void issued.promise;
  expect(issued.deadline).toBeGreaterThanOrEqual(before + 1000);
  issued.resolve();
});

it('a call ends once, as the first to end it says', async () => {
  const failed = issue(limits, ignore);
  failed.reject(new Error('first'));
  failed.reject(new Error('second'));
  failed.resolve();
  await expect(failed.promise).rejects.toThrow('first');

  const waiting = issue(limits, ignore);
  const { promise } = waiting;
  waiting.reject(new Error('first'));
  waiting.resolve();
  await expect(promise).rejects.toThrow('first');
});

it('a signal interrupts a call until it has ended', async () => {
  const reasons: unknown[] = [];
  const controller = new AbortController();
  const { signal } = controller;
  const ended = issue({ timeoutMs: 1000, signal }, (reason) => reasons.push(reason));
  void ended.promise;
  ended.resolve();
  const pending = issue({ timeoutMs: 1000, signal }, (reason) => reasons.push(reason));
  void pending.promise;
  controller.abort('enough');
  expect(reasons).toEqual(['enough']);

  // This signal was already aborted before the call.
  void issue({ timeoutMs: 1000, signal }, (reason) => reasons.push(reason)).promise;
  await Promise.resolve();
  expect(reasons).toEqual(['enough', 'enough']);
});

const none = {
  dtype: undefined,
  elements: 0,
  root: undefined,
  reduce: undefined,
  splits: undefined,
  pass: undefined,
  identity: undefined,
  member: undefined,
};
const records: readonly CallRecord[] = [
  { ...none, operation: 'barrier' },
  {
    ...none,
    operation: 'allReduce',
    dtype: 'bf16',
    elements: 2 ** 32,
    reduce: { premultipliedSum: 0.1 },
  },
  { ...none, operation: 'allReduce', dtype: 'u8', elements: 3, reduce: 'xor' },
  { ...none, operation: 'reduce', dtype: 'f32', elements: 5, root: 63, reduce: 'max' },
  { ...none, operation: 'broadcast', dtype: 'i64', elements: 5, root: 0 },
  {
    ...none,
    operation: 'allToAll',
    dtype: 'f64',
    elements: 4,
    splits: { input: [4, 0], output: [1, 2] },
  },
  { ...none, operation: 'split', member: { color: undefined, key: -7, channel: 2 } },
];

it('a record is the same after it was encoded, whatever lay there before', () => {
  const fields = new Float64Array(recordFields(2));
  for (const record of [...records, ...records.toReversed()]) {
    encodeRecord(record, 2, fields);
    expect(decodeRecord(fields, 2)).toEqual(record);
  }
});

it('any two calls that differ are a mismatch', () => {
  const encoded = records.map((record) => {
    const fields = new Float64Array(recordFields(2));
    encodeRecord(record, 2, fields);
    return fields;
  });
  for (const a of encoded) {
    for (const b of encoded) {
      if (a !== b) expect(findMismatch([a, b])).toEqual([0, 1]);
    }
  }
});

describe('settings of optimizer steps', () => {
  const encoded = (
    stepsBefore: StepSettings | undefined,
    steps: StepSettings | undefined,
  ): Float64Array => {
    const fields = new Float64Array(recordFields(2));
    const identity = { hash: 7, stepsBefore, steps, describe: () => 'a gradient' };
    encodeRecord({ ...none, operation: 'barrier', identity }, 2, fields);
    return fields;
  };
  const made = (steps: number, hash: number): StepSettings => ({
    steps,
    hash,
    describe: () => '',
  });

  it('are compared where two ranks have made equally many steps', () => {
    const own = encoded(made(1, 5), made(2, 9));
    expect(findMismatch([own, encoded(made(1, 5), made(2, 8))])).toBeUndefined();
    expect(findSettingsMismatch([own, own])).toBeUndefined();
    expect(findSettingsMismatch([own, encoded(made(1, 5), made(2, 8))])).toEqual({
      pair: [0, 1],
      ranks: [0, 1],
      of: 'steps',
    });
    const late = encoded(made(1, 4), made(1, 4));
    expect(findSettingsMismatch([own, late])?.of).toBe('stepsBefore');
  });

  it('are not compared where a rank has said nothing, or has made another number of steps', () => {
    const own = encoded(made(1, 5), made(2, 9));
    expect(findSettingsMismatch([own, encoded(undefined, undefined)])).toBeUndefined();
    expect(findSettingsMismatch([own, encoded(made(1, 5), made(1, 5))])).toBeUndefined();
    const third = encoded(made(1, 5), made(2, 8));
    const early = encoded(undefined, made(1, 5));
    expect(findSettingsMismatch([own, early, third])).toEqual({
      pair: [0, 2],
      ranks: [0, 2],
      of: 'steps',
    });
  });

  it.each([
    [
      'SGD.step(): lr 0.1',
      'SGD.step(): lr 0.2',
      'SGD.step(): lr is 0.1 on rank 0 and 0.2 on rank 1.',
    ],
    [
      'SGD.step(): lr 0.1 / 0.1; nesterov true',
      'SGD.step(): lr 0.1 / 0.2; nesterov true',
      'SGD.step(): lr of parameter group 1 is 0.1 on rank 0 and 0.2 on rank 1.',
    ],
    [
      'SGD.step(): lr 0.1',
      'SGD.step(): lr 0.1 / 0.2',
      'SGD.step(): lr is 0.1 on rank 0 and 0.1 / 0.2 on rank 1.',
    ],
    ['', '', 'steps of optimizers had different settings on ranks 0, 1.'],
  ])('that differ are named with both values: %s and %s', (first, second, message) => {
    const label = { operation: 'allReduce', sequence: 3, rank: 0 } as const;
    const mismatch = { pair: [0, 1], ranks: [0, 1], of: 'steps' } as const;
    const error = settingsError(label, mismatch, [first, second]);
    expect(error.code).toBe('COLLECTIVE_MISMATCH');
    expect(error.message).toContain(message);
  });
});
