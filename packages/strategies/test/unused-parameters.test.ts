import { beforeAll, describe, expect, it } from 'vitest';
import { z } from 'zod';
import { runCases } from '../../../test/support/run-cases.ts';
import { strategies } from './ranks/different-parameters.ts';
import { failure } from './ranks/failure.ts';

describe('without findUnusedParameters', () => {
  const names = Object.keys(strategies);
  let found: readonly (readonly unknown[])[] = [];

  beforeAll(async () => {
    const url = new URL('./ranks/different-parameters.ts', import.meta.url);
    found = await runCases(
      2,
      url,
      names.map((data) => ({ data })),
    );
  });

  it.each(names)(
    'losses of other parameters on each rank are an error that advises it: %s',
    (name) => {
      const failures = z.array(failure).length(2).parse(found[names.indexOf(name)]);
      for (const each of failures) {
        expect(each?.message).toContain('findUnusedParameters: true lets the losses of ranks use');
        expect(each?.message).toMatch(/'(left|right)\.weight'/);
      }
    },
  );
});
