import { execFileSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { data, DataError } from '@shardwise/core';
import {
  type ByteSource,
  concatRows,
  memoryBytes,
  readCsv,
  readJsonLines,
  readParquet,
  readTar,
  readTextLines,
  rowDataset,
  type Rows,
  textColumns,
  TokenDataset,
} from '@shardwise/data';
import { fileBytes, openIndexedTokens, openTokens, readImageFolder } from '@shardwise/data/node';
import { parquetWriteBuffer } from 'hyparquet-writer';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';

const encoder = new TextEncoder();
const text = (content: string, name = 'file.txt'): ByteSource =>
  memoryBytes(encoder.encode(content), name);
const all = async <Row>(rows: Rows<Row>): Promise<Row[]> =>
  Promise.all(Array.from({ length: rows.length }, (_, index) => rows.get(index)));

let folder = '';
beforeAll(() => void (folder = mkdtempSync(join(tmpdir(), 'data-'))));
afterAll(() => rmSync(folder, { recursive: true }));
const write = (name: string, content: Uint8Array | string): string => {
  const path = join(folder, name);
  writeFileSync(path, content);
  return path;
};

describe('TokenDataset', () => {
  it('has windows of a text, as far as they are whole', async () => {
    const dataset = new TokenDataset([0, 1, 2, 3, 4, 5, 6], { contextLength: 3 });
    expect(dataset.length).toBe(2);
    const { inputIds, labels } = await dataset.get(1);
    expect([[...inputIds.data], [...labels.data]]).toEqual([
      [3, 4, 5],
      [3, 4, 5],
    ]);
    const overlapping = new TokenDataset(Uint16Array.of(0, 1, 2, 3, 4), {
      contextLength: 3,
      stride: 1,
    });
    expect(overlapping.length).toBe(3);
    expect([...(await overlapping.get(2)).inputIds.data]).toEqual([2, 3, 4]);
    expect(() => new TokenDataset([1, 2], { contextLength: 3 })).toThrow(DataError);
  });

  it.each(['u16', 'u32'] as const)('reads windows of a file of %s', async (dtype) => {
    const ids = Array.from({ length: 100 }, (_, i) => (i === 50 ? 60_000 : i));
    const stored = dtype === 'u16' ? Uint16Array.from(ids) : Uint32Array.from(ids);
    const path = write(`${dtype}.bin`, new Uint8Array(stored.buffer));
    const dataset = new TokenDataset(await openTokens(path, { dtype }), { contextLength: 8 });
    const windows = await Promise.all(
      Array.from({ length: dataset.length }, (_, i) => dataset.get(i)),
    );
    expect(windows.flatMap(({ inputIds }) => [...inputIds.data])).toEqual(ids.slice(0, 96));
  });

  it('refuses files that are no tokens', async () => {
    await expect(openTokens(write('odd.bin', 'abc'))).rejects.toThrow(
      /3 bytes, which are no whole/,
    );
    await expect(openTokens(join(folder, 'none.bin'))).rejects.toThrow(DataError);
    const large = await openTokens(write('large.bin', new Uint8Array([0, 0, 0, 255])), {
      dtype: 'u32',
    });
    await expect(large.read(0, 1)).rejects.toThrow(/2\^31 or more/);
  });
});

describe('openIndexedTokens', () => {
  const prefix = new URL('golden/megatron', import.meta.url).pathname;

  it('reads what Megatron has written', async () => {
    const dataset = await openIndexedTokens(prefix);
    const samples = await Promise.all([0, 1, 2].map(async (index) => dataset.get(index)));
    expect(dataset.length).toBe(3);
    expect(samples.map(({ inputIds }) => Array.from(inputIds?.data ?? [], Number))).toEqual([
      [1, 2, 3],
      [65_000],
      [7, 8],
    ]);
  });

  it('refuses an index that does not fit, and never reads beyond a file', async () => {
    const damaged = async (change: (bytes: Buffer) => Uint8Array): Promise<unknown> => {
      write('x.idx', change(readFileSync(`${prefix}.idx`)));
      write('x.bin', readFileSync(`${prefix}.bin`));
      return openIndexedTokens(join(folder, 'x'));
    };
    await expect(damaged((bytes) => bytes.fill(0, 0, 4))).rejects.toThrow(/no index of version 1/);
    await expect(damaged((bytes) => bytes.subarray(0, 80))).rejects.toThrow(/80 bytes for 3 texts/);
    await expect(damaged((bytes) => bytes.subarray(0, 20))).rejects.toThrow(/20 bytes/);
    await expect(damaged((bytes) => bytes.fill(7, 17, 18))).rejects.toThrow(/dtype 7/);
    await expect(damaged((bytes) => bytes.fill(9, 34, 35))).rejects.toThrow(/text 0 of 9 tokens/);
    await expect(damaged((bytes) => bytes.fill(0xff, 46, 54))).rejects.toThrow(/at byte -1/);
  });
});

describe('rows of texts', () => {
  it('are lines, with either end, without those that are empty', async () => {
    const rows = await readTextLines(text('one\r\n\n zwei \n\r\ndrei'));
    expect(await all(rows)).toEqual(['one', ' zwei ', 'drei']);
    expect([0, 1, 2].map((row) => rows.nameOf(row))).toEqual([
      'file.txt, line 1',
      'file.txt, line 3',
      'file.txt, line 5',
    ]);
    expect((await readTextLines(text(''))).length).toBe(0);
  });

  it('are found across the chunks in which a long file is read', async () => {
    const lines = Array.from({ length: 4000 }, (_, i) => `${i} ${'é'.repeat(i % 500)}`);
    const path = write('long.txt', `${lines.join('\n')}\n`);
    expect(await all(await readTextLines(await fileBytes(path)))).toEqual(lines);
  });

  it('are JSON, and name the file and the line of one that is none', async () => {
    const rows = await readJsonLines(text('{"a": 1}\n\n[2]\n{"a": \n', 'train.jsonl'));
    expect([await rows.get(0), await rows.get(1)]).toEqual([{ a: 1 }, [2]]);
    await expect(rows.get(2)).rejects.toThrow(/train\.jsonl, line 4: no JSON/);
    await expect(rows.get(3)).rejects.toThrow(DataError);
  });

  it('are UTF-8, or an error', async () => {
    const rows = await readTextLines(memoryBytes(Uint8Array.of(65, 10, 255), 'x'));
    await expect(rows.get(1)).rejects.toThrow(/x, line 2: bytes that are no UTF-8/);
  });
});

describe('rows of comma-separated values', () => {
  it('have quotes, separators and ends of lines in fields', async () => {
    const rows = await readCsv(text('name,text\n"A, B","say ""hi""\nnow"\r\nC,\n'));
    expect(await all(rows)).toEqual([
      { name: 'A, B', text: 'say "hi"\nnow' },
      { name: 'C', text: '' },
    ]);
    expect(rows.nameOf(1)).toBe('file.txt, line 4');
    expect(await all(await readCsv(text('a\tb\n1\t2\n'), { separator: '\t' }))).toEqual([
      { a: '1', b: '2' },
    ]);
  });

  it('refuse what is no table', async () => {
    await expect(readCsv(text(''))).rejects.toThrow(/names of the columns/);
    await expect(readCsv(text('a,a\n'))).rejects.toThrow(/two columns of one name/);
    await expect(readCsv(text('a\n"b\n'))).rejects.toThrow(/a quote that is not closed/);
    await expect((await readCsv(text('a,b\n1\n'))).get(0)).rejects.toThrow(
      /line 2: 1 fields instead of 2/,
    );
    await expect((await readCsv(text('a,b\n"1"x,2\n'))).get(0)).rejects.toThrow(
      /text after a quote/,
    );
  });
});

describe('rows of a Parquet file', () => {
  const texts = Array.from({ length: 25 }, (_, i) => `row ${i}`);
  const file = new Uint8Array(
    parquetWriteBuffer({
      columnData: [
        { name: 'text', data: texts, type: 'STRING' },
        { name: 'label', data: texts.map((_, i) => i), type: 'INT32' },
      ],
      rowGroupSize: 10,
    }),
  );

  it('are read by their index, group by group, all columns or some', async () => {
    const rows = await readParquet(memoryBytes(file, 'a.parquet'));
    expect(await all(rows)).toEqual(texts.map((each, label) => ({ text: each, label })));
    const some = await readParquet(memoryBytes(file), { columns: ['label'] });
    expect(await some.get(24)).toEqual({ label: 24 });
    expect(rows.nameOf(3)).toBe('a.parquet, row 3');
  });

  it('read a group once for rows that follow each other', async () => {
    let reads = 0;
    const memory = memoryBytes(file);
    const counting = {
      ...memory,
      read: (start: number, end: number) => ((reads += 1), memory.read(start, end)),
    };
    const rows = await readParquet(counting);
    await rows.get(0);
    const before = reads;
    for (let row = 1; row < 10; row++) await rows.get(row);
    expect(reads).toBe(before);
  });

  it('refuse a file that was cut off', async () => {
    await expect(readParquet(memoryBytes(file.slice(0, 100), 'a.parquet'))).rejects.toThrow(
      /rows of a\.parquet/,
    );
  });
});

describe('samples of a tar file', () => {
  const longName = `${'deep/'.repeat(30)}002.txt`;

  it('are neighbouring files of one key', async () => {
    const names = ['001.cls', '001.txt', longName, '003.seg.png'];
    for (const name of names) {
      execFileSync('mkdir', ['-p', join(folder, 'tar', name, '..')]);
      write(`tar/${name}`, `content of ${name}`);
    }
    for (const format of ['ustar', 'gnu', 'pax']) {
      const path = join(folder, `${format}.tar`);
      execFileSync('tar', ['-cf', path, `--format=${format}`, '-C', join(folder, 'tar'), ...names]);
      const samples = await all(await readTar(await fileBytes(path)));
      const read = samples.map(({ key, files }) => [
        key,
        Object.fromEntries(
          Object.entries(files).map(([name, bytes]) => [name, new TextDecoder().decode(bytes)]),
        ),
      ]);
      expect(read).toEqual([
        ['001', { cls: 'content of 001.cls', txt: 'content of 001.txt' }],
        [longName.slice(0, -4), { txt: `content of ${longName}` }],
        ['003', { 'seg.png': 'content of 003.seg.png' }],
      ]);
    }
  });

  it('refuse a damaged file', async () => {
    const path = join(folder, 'small.tar');
    write('a.txt', 'x'.repeat(600));
    execFileSync('tar', ['-cf', path, '-C', folder, 'a.txt']);
    const bytes = new Uint8Array(readFileSync(path));
    await expect(readTar(memoryBytes(bytes.slice(0, 1024)))).rejects.toThrow(
      /600 bytes beyond the end/,
    );
    await expect(readTar(memoryBytes(bytes.with(0, 98)))).rejects.toThrow(/another checksum/);
  });
});

describe('rowDataset', () => {
  it('makes samples of rows for a data loader, and names the row of which it cannot', async () => {
    const rows = concatRows([
      await readJsonLines(text('1\n2\n', 'a')),
      await readJsonLines(text('3\n"x"\n', 'b')),
    ]);
    const dataset = rowDataset(rows, (row) => {
      if (typeof row !== 'number') throw new TypeError('no number');
      return data.ndArray(Int32Array.of(row));
    });
    expect(
      await Promise.all([0, 1, 2].map(async (index) => Number((await dataset.get(index)).data[0]))),
    ).toEqual([1, 2, 3]);
    await expect(dataset.get(3)).rejects.toThrow(/the sample of b, line 2: no number/);
    await expect(dataset.get(4)).rejects.toThrow(/4 items/);
    expect(() => concatRows([])).toThrow(/no files/);
  });
});

describe('rows in workers', () => {
  it('come in the order of the sampler, each once on all ranks, and go on in the middle of an epoch on another number of ranks', async () => {
    const path = write('numbers.jsonl', Array.from({ length: 12 }, (_, i) => `${i}\n`).join(''));
    const module = new URL('workers/json-lines.ts', import.meta.url);
    const loaderOf = (rank: number, numReplicas: number): data.DataLoader<data.NDArray> => {
      const sampler = new data.DistributedSampler({ dataset: 12, numReplicas, rank, seed: 3 });
      const dataset = { module, export: 'numbers', arguments: [path], length: 12 };
      return new data.DataLoader<data.NDArray>({
        dataset,
        sampler,
        batchSize: 4 / numReplicas,
        workers: 2,
      });
    };
    const seen: number[] = [];
    const states: unknown[] = [];
    for (const loader of [0, 1].map((rank) => loaderOf(rank, 2))) {
      for await (const batch of loader) {
        seen.push(...Array.from(batch.data, Number));
        break;
      }
      states.push(loader.state());
    }
    expect(states[0]).toEqual(states[1]);
    const alone = loaderOf(0, 1);
    alone.load(states[0]);
    for await (const batch of alone) seen.push(...Array.from(batch.data, Number));
    expect(seen.toSorted((a, b) => a - b)).toEqual(Array.from({ length: 12 }, (_, i) => i));
  });
});

describe('readImageFolder', () => {
  it('has a class for each folder, in the order of their names', async () => {
    for (const name of ['dog/b.png', 'cat/2.jpg', 'cat/sub/1.JPEG', 'cat/notes.txt']) {
      execFileSync('mkdir', ['-p', join(folder, 'images', name, '..')]);
      write(`images/${name}`, `bytes of ${name}`);
    }
    const rows = await readImageFolder(join(folder, 'images'));
    expect(rows.classes).toEqual(['cat', 'dog']);
    const files = await all(rows);
    expect(files.map(({ bytes, label }) => [label, new TextDecoder().decode(bytes)])).toEqual([
      [0, 'bytes of cat/2.jpg'],
      [0, 'bytes of cat/sub/1.JPEG'],
      [1, 'bytes of dog/b.png'],
    ]);
    await expect(readImageFolder(join(folder, 'images/dog'))).rejects.toThrow(DataError);
  });
});

describe('textColumns', () => {
  it('reads the texts of all rows of CSV and of JSON lines, and numbers as texts', async () => {
    const csv = await readCsv(text('label,text,more\n1,a,x\n0,b,y\n'));
    const json = await readJsonLines(text('{"text":"a","label":1}\n{"label":0,"text":"b"}\n'));
    for (const rows of [csv, json]) {
      expect(await textColumns(rows, 'text', 'label')).toEqual([
        { text: 'a', label: '1' },
        { text: 'b', label: '0' },
      ]);
    }
  });

  it('refuses rows that are not awaited, which have no length', async () => {
    const rows: never = readJsonLines(text('{"text":"a"}')) as never;
    await expect(textColumns(rows, 'text')).rejects.toThrow(/a Promise, which is no rows/);
  });

  it.each([
    ['{"text":"a","label":"b"}\n{"text":"a","lable":"b"}', /line 2: no label among text, lable/],
    ['{"text":"a","label":null}', /line 1: label: null, which is no text/],
    ['{"text":["a"],"label":"b"}', /line 1: text: an array of 1, which is no text/],
    ['["a","b"]', /line 1/],
    ['\n', /a file without any/],
  ])('refuses %j, and says where', async (lines, message) => {
    const rows = await readJsonLines(text(lines, 'train.jsonl'));
    const read = textColumns(rows, 'text', 'label');
    await expect(read).rejects.toThrow(message);
    await expect(read).rejects.toThrow(DataError);
  });
});

describe('a source that is not awaited', () => {
  it.each([readTextLines, readJsonLines, readCsv, readParquet, readTar])(
    'is refused by %o, instead of having no rows',
    async (read) => {
      const source: never = fileBytes(write('source.txt', 'a')) as never;
      await expect(read(source)).rejects.toThrow(
        /a Promise in the place of its bytes\. Give await fileBytes/,
      );
    },
  );
});
