import { mkdir, mkdtemp, truncate, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { DataError } from '@shardwise/core';
import * as fc from 'fast-check';
import { beforeEach, describe, expect, it } from 'vitest';
import { dumpSchema } from '../src/blame/dump-schema.ts';
import { findBlame } from '../src/blame/find-blame.ts';
import { readDumps } from '../src/blame/read-dumps.ts';
import { call, dumpOf, message } from './flight-dumps.ts';

const world = { world: [0, 1] };
const dump = dumpOf(0, world, [call('allReduce', { line: 3 }), message('send', 1)]);

let directory = '';
beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), 'shardwise-dumps-'));
});

async function write(name: string, contents: unknown): Promise<string> {
  const path = join(directory, name);
  await writeFile(path, typeof contents === 'string' ? contents : JSON.stringify(contents));
  return path;
}

describe('reading dumps', () => {
  it('takes files, folders and run directories', async () => {
    const path = await write('rank-0.json', dump);
    await write('notes.json', '{}');
    expect((await readDumps([path])).dumps.get(0)).toEqual(dump);
    expect((await readDumps([directory])).dumps.get(0)).toEqual(dump);
    const run = await mkdtemp(join(tmpdir(), 'shardwise-run-'));
    await mkdir(join(run, 'flight'));
    await writeFile(join(run, 'flight', 'rank-1.json'), JSON.stringify({ ...dump, rank: 1 }));
    expect([...(await readDumps([run])).dumps.keys()]).toEqual([1]);
  });

  it.each([
    ['is cut', JSON.stringify(dump).slice(0, 200), /JSON/],
    ['is empty', '', /JSON/],
    ['is no object', '[]', /it is no dump/],
    ['lacks a field', { ...dump, entries: undefined }, /it is no dump: entries/],
    ['is of another version', { ...dump, version: '2.0' }, /it is no dump: version/],
    ['has a rank below 0', { ...dump, rank: -1 }, /it is no dump: rank/],
    [
      'has a long name',
      { ...dump, pg_config: { 0: { name: 'x'.repeat(5000), desc: '', ranks: '[0]' } } },
      /it is no dump: pg_config/,
    ],
    [
      'has ranks that are none',
      { ...dump, pg_config: { 0: { name: 'world', desc: '', ranks: '[0; rm]' } } },
      /it is no dump: pg_config/,
    ],
  ])('reports a file that %s, and goes on with the others', async (_, contents, reason) => {
    await write('rank-0.json', contents);
    await write('rank-1.json', { ...dump, rank: 1 });
    const { dumps, unreadable } = await readDumps([directory]);
    expect([...dumps.keys()]).toEqual([1]);
    expect(unreadable).toEqual([
      { path: join(directory, 'rank-0.json'), reason: expect.stringMatching(reason) },
    ]);
  });

  it('does not load a file of any size', async () => {
    const path = await write('rank-0.json', '');
    await truncate(path, 2 ** 40);
    expect((await readDumps([path])).unreadable[0]?.reason).toMatch(/it has 1099511627776 bytes/);
  });

  it('does not take two dumps of one rank', async () => {
    const paths = [await write('rank-0.json', dump), await write('rank-1.json', dump)];
    expect((await readDumps(paths)).unreadable[0]?.reason).toBe('rank 0 has another dump');
  });

  it('fails where there is no dump, and says where it looked', async () => {
    await expect(readDumps([directory])).rejects.toThrow(DataError);
    await expect(readDumps([join(directory, 'nowhere')])).rejects.toThrow(/no such file or folder/);
  });

  it('comes to a verdict on whatever passes for dumps', () => {
    const text = JSON.stringify(dump);
    fc.assert(
      fc.property(
        fc.nat({ max: text.length - 1 }),
        fc.constantFrom('9', '0', '""', '-1', '1e300', 'null', '[]'),
        (at, patch) => {
          const end = at + (/^[\w.]+/.exec(text.slice(at))?.[0].length ?? 1);
          let value: unknown;
          try {
            value = JSON.parse(text.slice(0, at) + patch + text.slice(end));
          } catch {
            return;
          }
          const parsed = dumpSchema.safeParse(value);
          if (parsed.success) {
            expect(findBlame(new Map([[parsed.data.rank, parsed.data]]))).toHaveProperty('kind');
          }
        },
      ),
      { numRuns: 500 },
    );
  });
});
