import { mkdtemp, open, readFile, rm, stat } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { copySparse } from '../src/launcher/servers/copy-sparse.ts';

let folder = '';

beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'shardwise-sparse-'));
});

afterEach(() => rm(folder, { recursive: true, force: true }));

it('a copy has the same bytes, and no room for what is zero', async () => {
  const [from, to] = [join(folder, 'from'), join(folder, 'to')];
  const mebibyte = 1 << 20;
  {
    await using file = await open(from, 'w');
    await file.write(Buffer.from('first'), 0, 5, 3);
    await file.write(Buffer.from('last'), 0, 4, 20 * mebibyte);
    await file.truncate(21 * mebibyte + 7);
  }
  await copySparse(from, to);
  expect((await readFile(to)).equals(await readFile(from))).toBe(true);
  // `blocks` counts units of 512 bytes.
  expect((await stat(to)).blocks * 512).toBeLessThan(4 * mebibyte);
});
