import { execFileSync } from 'node:child_process';
import { mkdtempSync, rmdirSync } from 'node:fs';
import { readdir, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createThreadsWorld, joinThreadsWorld } from '@shardwise/collectives';
import { CheckpointError, type HostArrays } from '@shardwise/core';
import { filePages } from '@shardwise/core/node';
import { afterAll, describe, expect, it } from 'vitest';
import { CheckpointSaver } from '../src/checkpoint/save/checkpoint-saver.ts';
import { diskFiles } from '../src/checkpoint/places/disk-files.ts';
import { loadCheckpoint } from '../src/checkpoint/load/load-checkpoint.ts';

const diskBytes = 512 * 1024;
const disk = mountDisk();

/** Mounts memory of this machine as a disk. Returns undefined if this process may not mount anything. */
function mountDisk(): string | undefined {
  const directory = mkdtempSync(join(tmpdir(), 'shardwise-full-'));
  try {
    const size = ['-o', `size=${diskBytes}`];
    execFileSync('mount', ['-t', 'tmpfs', ...size, 'tmpfs', directory], { stdio: 'ignore' });
    return directory;
  } catch {
    rmdirSync(directory);
    return undefined;
  }
}

const model = (value: number): HostArrays => {
  const values = new Float32Array((diskBytes / 4) * 0.4).fill(value);
  return { w: { dtype: 'f32', shape: [values.length], bytes: new Uint8Array(values.buffer) } };
};

describe.skipIf(disk === undefined)('a disk that is full', () => {
  const directory = disk ?? '';

  afterAll(() => {
    execFileSync('umount', [directory]);
    rmdirSync(directory);
  });

  it.each([{ async: false }, { async: true }])(
    'while a checkpoint is written is an error on all ranks, and the one before is still whole: %o',
    async (options) => {
      const folder = join(directory, options.async ? 'background' : 'foreground');
      const world = createThreadsWorld({ size: 2 });
      const groups = [0, 1].map((rank) => joinThreadsWorld(world, rank));
      const savers = groups.map(
        (group) => new CheckpointSaver({ directory: folder, group, files: diskFiles }),
      );
      const save = (step: number): Promise<PromiseSettledResult<unknown>[]> =>
        Promise.allSettled(
          savers.map(async (saver) => {
            await saver.save({ step, model: model(step) }, options);
            await saver.finish();
          }),
        );
      expect((await save(1)).map(({ status }) => status)).toEqual(['fulfilled', 'fulfilled']);
      await writeFile(join(directory, 'other'), new Uint8Array(diskBytes * 0.4));
      for (const outcome of await save(2)) {
        const message = expect.stringMatching(
          /rank 0: ENOSPC.*Make room on the disk.*still in force/s,
        );
        const reason = { code: 'CHECKPOINT', message };
        expect(outcome).toMatchObject({ status: 'rejected', reason });
      }
      expect((await readdir(folder)).toSorted()).toEqual(['latest', 'step-000001']);
      const before = await loadCheckpoint(folder);
      expect([before.step, await before.model.read('w')]).toEqual([1, model(1)['w']]);
      await rm(join(directory, 'other'));
      expect((await save(3)).map(({ status }) => status)).toEqual(['fulfilled', 'fulfilled']);
      expect((await loadCheckpoint(folder)).step).toBe(3);
      for (const saver of savers) await saver.close();
      for (const group of groups) group.close();
      await rm(folder, { recursive: true });
    },
  );

  it('while states are paged out is an error that names the file', async () => {
    await using pages = await filePages(directory);
    const { w: { bytes = new Uint8Array() } = {} } = model(1);
    await pages.write('first', bytes);
    await pages.write('second', bytes);
    const failure = pages.write('third moments', bytes);
    await expect(failure).rejects.toThrow(CheckpointError);
    await expect(failure).rejects.toThrow(/third%20moments: ENOSPC.*enough space/);
  });
});
