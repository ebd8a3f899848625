import { execFileSync } from 'node:child_process';
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { checkpoints } from 'shardwise';
import { afterAll, expect, it } from 'vitest';
import type { EncodedFile, Task } from './page/task.ts';
import {
  describePage,
  expectLosses,
  lossesOfOneRank,
  oneRank,
  STEPS,
  task,
  trainOneRank,
} from './perform-tasks.ts';

/** The step after which runs are interrupted. */
const half = STEPS / 2;

describePage('checkpoints of ranks in a page', (perform) => {
  const folder = mkdtempSync(join(tmpdir(), 'shardwise-page-checkpoints-'));
  afterAll(() => rmSync(folder, { recursive: true, force: true }));
  const saves = (changes: Partial<Task>, async = false): Task =>
    task({ steps: half, save: { steps: [2, 4, half], async, keep: 2 }, ...changes });

  it('go on in the page on other ranks by another strategy, and in Node', async () => {
    const expected = await lossesOfOneRank();
    const found = await perform([
      saves({ directory: 'runs/sharded', strategy: 'fsdp' }),
      task({ resume: { kind: 'storage', directory: 'runs/sharded' }, size: 1, strategy: 'none' }),
      task({ resume: { kind: 'archive', directory: 'runs/sharded' }, strategy: 'pipeline' }),
      saves({ directory: 'runs/stages', strategy: 'pipeline' }, true),
      task({ resume: { kind: 'storage', directory: 'runs/stages' }, size: 4, strategy: 'fsdp' }),
    ]);
    const [sharded, , , stages] = found;
    for (const each of [sharded, stages]) {
      expect(each?.ends.map(({ status, message }) => message ?? status)).toEqual([
        'closed',
        'closed',
      ]);
      expect(each?.heard.map(({ step }) => step)).toEqual([2, 4, half]);
    }
    const folders = [half, 4].map((step) => `runs/sharded/checkpoints/step-00000${step}`);
    expect(sharded?.stored).toEqual(folders);
    expect(sharded?.heard.at(-1)?.directory).toBe(folders[0]);
    for (const index of [1, 2, 4]) {
      const each = found[index];
      if (each !== undefined) expectLosses(each, expected, half + 1);
    }
    for (const each of [sharded, stages]) {
      const archive = each?.archive;
      expect(archive?.name).toBe(`step-00000${half}.tar`);
      writeFileSync(join(folder, 'page.tar'), Uint8Array.from(archive?.bytes ?? []));
      execFileSync('tar', ['xf', 'page.tar'], { cwd: folder });
      const rank = await oneRank();
      const checkpoint = await checkpoints.load(join(folder, `step-00000${half}`));
      expect(checkpoint).toMatchObject({ step: half, worldSize: 2 });
      await checkpoints.loadModel(checkpoint, rank.model);
      await checkpoints.loadOptimizer(checkpoint, rank.model, rank.optimizer);
      const losses = await trainOneRank(rank, half + 1, STEPS);
      for (const [index, loss] of losses.entries()) {
        expect(loss).toBeCloseTo(expected[half + index] ?? Number.NaN, 4);
      }
    }
  });

  it('of Node go on in a page, as an archive and as the files of a folder', async () => {
    const expected = await lossesOfOneRank();
    const rank = await oneRank();
    await trainOneRank(rank, 1, half);
    const saved = await checkpoints.save(join(folder, 'node'), { step: half, ...rank });
    execFileSync('tar', ['cf', 'run.tar', 'node'], { cwd: folder });
    const encoded = (name: string, path: string): EncodedFile => ({
      name,
      bytes: [...readFileSync(path)],
    });
    const files = readdirSync(saved).map((name) => encoded(name, join(saved, name)));
    const archive = encoded('run.tar', join(folder, 'run.tar'));
    const found = await perform([
      task({ resume: { kind: 'files', files: [archive] }, strategy: 'fsdp' }),
      task({ resume: { kind: 'files', files }, strategy: 'ddp' }),
      task({ resume: { kind: 'files', files: files.slice(0, 1) }, size: 1, strategy: 'none' }),
    ]);
    const [fromArchive, fromFiles, broken] = found;
    for (const each of [fromArchive, fromFiles]) {
      if (each !== undefined) expectLosses(each, expected, half + 1);
    }
    expect(broken?.ends).toMatchObject([
      {
        status: 'failed',
        name: 'CheckpointError',
        message: expect.stringMatching(/^Reading |as an archive/),
      },
    ]);
  });
});
