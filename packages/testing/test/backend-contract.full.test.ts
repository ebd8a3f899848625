import type { Backend } from '@shardwise/core/spec';
import { interpreter, listTests } from '@shardwise/testing';
import type { ListedTest } from '@shardwise/testing';
import { describe, expect, test } from 'vitest';

/** An interpreter that changes the first byte of every read. */
function corrupted(): Backend {
  const inner = interpreter();
  return {
    ...inner,
    read: async (buffer) =>
      (await inner.read(buffer)).map((byte, i) => (i === 0 ? byte ^ 0x40 : byte)),
  };
}

function find(
  tests: readonly ListedTest<Backend>[],
  group: string,
  title: string,
): ListedTest<Backend> {
  const found = tests.find((entry) => entry.group === group && entry.title.startsWith(title));
  if (found === undefined) throw new Error(`no ${group}: ${title}`);
  return found;
}

const SKIP = [{ reason: 'reads are broken', tests: ['neg: f32 [7]'] }];

describe('the backend contract', () => {
  test('fails a backend that computes something else', async () => {
    await expect(find(listTests(), 'neg', 'f32 [7]').check(corrupted())).rejects.toThrow('[0]:');
    await expect(
      find(listTests(), 'program', 'an update replaces').check(corrupted()),
    ).rejects.toThrow();
    await expect(
      find(listTests(), 'memory', 'read gives what').check(corrupted()),
    ).rejects.toThrow();
    await expect(
      find(listTests(), 'order', 'a run that is not').check(corrupted()),
    ).rejects.toThrow();
  });

  test('passes a skipped test that fails, and shows the reason', async () => {
    const skipped = find(listTests({ skip: SKIP }), 'neg', 'f32 [7]');
    expect(skipped.title).toBe('f32 [7] (skipped: reads are broken)');
    await expect(skipped.check(corrupted())).resolves.toBeUndefined();
  });

  test('fails a skipped test that passes', async () => {
    const skipped = find(listTests({ skip: SKIP }), 'neg', 'f32 [7]');
    await expect(skipped.check(interpreter())).rejects.toThrow(
      '"neg: f32 [7]" passes: take it out of skip',
    );
  });

  test('refuses to skip a test that does not exist', () => {
    const skip = [{ reason: 'a slip', tests: ['neg: f32 [8]'] }];
    expect(() => listTests({ skip })).toThrow('to skip "neg: f32 [8]"');
  });

  test('has no two tests of one name', () => {
    const names = listTests().map(({ group, title }) => `${group}: ${title}`);
    expect(names.filter((name, i) => names.indexOf(name) !== i)).toEqual([]);
  });

  test('checks a composite only where the backend lists it', () => {
    const { reasonToSkip } = find(listTests(), 'softmax', 'f32 [7]');
    const backend = interpreter();
    const native = {
      ...backend,
      limits: { ...backend.limits, native: new Set(['softmax'] as const) },
    };
    expect(reasonToSkip?.(backend)).toBe('limits.native has no softmax');
    expect(reasonToSkip?.(native)).toBeUndefined();
  });
});
