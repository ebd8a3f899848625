import { expect, test } from 'vitest';
import * as spec from '../src/spec/errors.ts';

const what = { asked: 'to do it', found: 'it cannot be done', todo: 'Do something else' };

/** The exported classes of errors that can be constructed. */
const classes = Object.entries(spec).filter(
  ([name]) => name.endsWith('Error') && name !== 'ShardwiseError',
);

test.each(classes)('an error of %s says its name, and has a code', (name, Class) => {
  const error: unknown = Reflect.construct(Class, [what, {}]);
  expect(spec.ShardwiseError.isInstance(error)).toBe(true);
  expect(error).toMatchObject({ name, code: expect.stringMatching(/^[A-Z_]+$/) });
  expect(String(error)).toMatch(new RegExp(`^${name}: `));
});
