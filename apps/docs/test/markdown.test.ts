import { expect, test } from 'vitest';
import { inline } from '../generate/markdown.ts';

test('a doc comment keeps what Markdown and Vue would take for their own', () => {
  expect(inline('[.., size*S] -> Map<A, B>, {{ x }}')).toBe(
    '[.., size\\*S] -> Map&lt;A, B>, &#123;&#123; x }}',
  );
  expect(inline('`a * b < c`')).toBe('`a * b < c`');
});

test('indented lines of a doc comment are code, with their blanks', () => {
  expect(inline('Ranks:\n\n       tp 0  tp 1\n    dp 0  0 * 1\n\nNext.')).toBe(
    'Ranks:\n\n```text\n   tp 0  tp 1\ndp 0  0 * 1\n```\n\nNext.',
  );
  expect(inline('    run(2 * x);')).toBe('```ts\nrun(2 * x);\n```');
});
