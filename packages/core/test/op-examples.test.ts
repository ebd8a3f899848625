import { opExamples } from '@shardwise/testing';
import { describe, expect, test } from 'vitest';
import { ops } from '../src/graph/ops/ops.ts';

const byOp = Object.entries(Object.groupBy(opExamples(), ([op]) => op));

test('every op that a program may contain has an example', () => {
  const computed = Object.entries(ops).filter(
    ([, { by }]) => by === 'device' || by === 'composite',
  );
  expect(byOp.map(([op]) => op).toSorted()).toEqual(computed.map(([op]) => op).toSorted());
});

describe('the examples of an op have both values of each of its flags', () => {
  const flagsOf = (params: object): string[] =>
    Object.entries(params).flatMap(([name, value]) => (typeof value === 'boolean' ? [name] : []));
  const flagged = byOp.filter(([, examples]) => flagsOf(examples[0]?.[1].params ?? {}).length > 0);
  test.each(flagged)('%s', (_, examples) => {
    for (const name of flagsOf(examples[0]?.[1].params ?? {})) {
      const values = examples.map(([, { params }]) => Reflect.get(params, name));
      expect(new Set(values), name).toEqual(new Set([true, false]));
    }
  });
});
