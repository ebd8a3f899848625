import { execFileSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { crc32 as zlibCrc32 } from 'node:zlib';
import { CheckpointError } from '@shardwise/core';
import { assert, integer, property, uint8Array } from 'fast-check';
import { afterAll, describe, expect, it } from 'vitest';
import { crc32 } from '../src/browser/checkpoint/crc32.ts';
import { loadCheckpoint } from '../src/browser/checkpoint/load-checkpoint.ts';
import { filesOfTar, tarOf } from '../src/browser/checkpoint/tar.ts';
import { saveCheckpoint } from '../src/checkpoint/save/save-checkpoint.ts';

const folder = mkdtempSync(join(tmpdir(), 'shardwise-page-checkpoints-'));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

const weights = { dtype: 'f32', shape: [3], bytes: new Uint8Array(12).fill(7) } as const;
const save = (name: string, step: number): Promise<string> =>
  saveCheckpoint(join(folder, name), { step, model: { weights } });
const fileOf = (path: string, name: string): File => new File([readFileSync(path)], name);

it('the checksum of a page is that of zlib, wherever the bytes begin', () => {
  assert(
    property(uint8Array({ maxLength: 100 }), integer({ min: 0, max: 9 }), (bytes, start) => {
      expect(crc32(bytes.subarray(start))).toBe(zlibCrc32(bytes.subarray(start)));
    }),
  );
});

describe('an archive', () => {
  const contents = new Blob([new Uint8Array(1000).fill(3)]);

  it('has the files that were put in, and tar reads it', async () => {
    const files = [
      { path: 'step-000001/state.json', contents: new Blob(['{}']) },
      { path: 'step-000001/model', contents },
      { path: 'step-000001/nothing', contents: new Blob([]) },
    ];
    const archive = tarOf(files, 1_000_000);
    expect(archive.size % 512).toBe(0);
    const found = await filesOfTar(archive, 'a.tar');
    expect(found.map(({ path }) => path)).toEqual(files.map(({ path }) => path));
    for (const [index, file] of files.entries()) {
      expect(await found[index]?.contents.bytes()).toEqual(await file.contents.bytes());
    }
    writeFileSync(join(folder, 'a.tar'), await archive.bytes());
    const listed = execFileSync('tar', ['tf', 'a.tar'], { cwd: folder, encoding: 'utf8' });
    expect(listed.trim().split('\n')).toEqual(files.map(({ path }) => path));
  });

  it('of tar is read, also with paths of more than 100 bytes', async () => {
    const long = join(folder, 'long', 'a'.repeat(90), 'b'.repeat(60));
    execFileSync('mkdir', ['-p', long]);
    writeFileSync(join(long, 'state.json'), 'contents');
    for (const format of ['gnu', 'ustar', 'pax']) {
      execFileSync('tar', ['cf', 'long.tar', `--format=${format}`, 'long'], { cwd: folder });
      const files = await filesOfTar(fileOf(join(folder, 'long.tar'), 'long.tar'), 'long.tar');
      expect(files.map(({ path }) => path)).toEqual([
        join(long, 'state.json').slice(folder.length + 1),
      ]);
      expect(await files[0]?.contents.text()).toBe('contents');
    }
  });

  it.each([
    ['nothing', new Uint8Array(), '0 bytes, without the end of an archive'],
    ['a text', new Uint8Array(600).fill(65), 'something else'],
    [
      'a text that is shorter than a header',
      new Uint8Array(60).fill(65),
      '60 bytes, without the end',
    ],
  ])('that is %s is refused', async (_, bytes, found) => {
    const failure = await filesOfTar(new Blob([bytes]), 'x.tar').catch((error: unknown) => error);
    expect(failure).toBeInstanceOf(CheckpointError);
    expect(failure).toMatchObject({
      message: expect.stringContaining(`x.tar as an archive (.tar) with a checkpoint: ${found}`),
    });
  });

  it.each(['L', 'x'])('whose path, of kind %s, is longer than any is refused', async (kind) => {
    const path = new Blob([new Uint8Array(64 * 1024 + 1)]);
    const bytes = await tarOf([{ path: 'long', contents: path }], 0).bytes();
    // Changing the kind in the tar header also changes its checksum, the sum of its bytes.
    const sum = Number.parseInt(new TextDecoder().decode(bytes.subarray(148, 154)), 8);
    const changed = sum + kind.charCodeAt(0) - '0'.charCodeAt(0);
    bytes.set(new TextEncoder().encode(changed.toString(8).padStart(6, '0')), 148);
    bytes.set(new TextEncoder().encode(kind), 156);
    await expect(filesOfTar(new Blob([bytes]), 'x.tar')).rejects.toThrow(/a path of 65537 bytes/);
  });

  it('is refused where it has been cut', async () => {
    const archive = tarOf([{ path: 'model', contents }], 0);
    for (const length of [600, 1400, 1536]) {
      await expect(filesOfTar(archive.slice(0, length), 'x.tar')).rejects.toBeInstanceOf(
        CheckpointError,
      );
    }
  });
});

describe('a checkpoint that a visitor picks', () => {
  it('is that of its files, of its archive, or the latest one of the archive of a run', async () => {
    await save('runs/a/checkpoints', 1);
    const latest = await save('runs/a/checkpoints', 2);
    execFileSync('tar', ['cf', 'run.tar', 'runs'], { cwd: folder });
    execFileSync('tar', ['cf', 'flat.tar', '-C', latest, '.'], { cwd: folder });
    const names = ['state.json', 'model-00001-of-00001.safetensors'];
    const sources = [
      names.map((name) => fileOf(join(latest, name), name)),
      fileOf(join(folder, 'run.tar'), 'run.tar'),
      [fileOf(join(folder, 'flat.tar'), 'flat.tar')],
    ];
    for (const source of sources) {
      const { step, model } = await loadCheckpoint(source);
      expect(step).toBe(2);
      expect(await model.read('weights')).toEqual(weights);
    }
  });

  it('is refused where files are missing, twice there or damaged, by their names', async () => {
    const saved = await save('damaged', 1);
    const state = fileOf(join(saved, 'state.json'), 'state.json');
    const name = 'model-00001-of-00001.safetensors';
    const model = fileOf(join(saved, name), name);
    const refused = async (source: readonly File[], message: RegExp): Promise<void> => {
      await expect(loadCheckpoint(source)).rejects.toThrow(message);
    };
    await refused([], /files that were picked: none/);
    await refused([model, model], /two of them that are named model-00001/);
    await refused([model, fileOf(join(saved, name), 'other')], /there is no state\.json/);
    await refused([state, fileOf(join(saved, name), 'other')], /model-00001.*it is missing/);
    await refused([state, new File([model.slice(1)], name)], /expected \d+ bytes, found \d+/);
    const bytes = await model.bytes();
    bytes[bytes.length - 1] = 0;
    const damaged = await loadCheckpoint([state, new File([bytes], name)]);
    await expect(damaged.model.read('weights')).rejects.toThrow(/expected CRC-32/);
  });
});
