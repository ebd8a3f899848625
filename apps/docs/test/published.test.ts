import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { published } from '../benchmark/published.ts';

const measured = readFileSync(join(import.meta.dirname, '../../../bench/README.md'), 'utf8');

test.each(published)('$by, $what: bench/README.md has $figures of $date', ({ figures, date }) => {
  const words = new Set(measured.split(/[\s|,]+/));
  for (const figure of figures.filter((each) => each !== '')) {
    for (const word of figure.split(' ')) expect(words).toContain(word);
  }
  expect(measured).toContain(date);
});
