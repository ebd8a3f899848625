import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { published } from '../benchmark/published.ts';

const root = join(import.meta.dirname, '../../..');

test.each(published)('$by is as $source says, on $date', ({ figures, date, source }) => {
  const text = readFileSync(join(root, source), 'utf8');
  for (const figure of figures) expect(text).toContain(figure);
  expect(text).toContain(date);
});
