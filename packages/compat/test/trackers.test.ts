import { mkdtemp, readdir, readFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { accelerate } from '@shardwise/compat';
import { init, ones, type RankContext } from 'shardwise';
import { afterAll, beforeAll, beforeEach, describe, expect, it, vi } from 'vitest';

let context: RankContext;
beforeAll(async () => {
  context = await init();
});
afterAll(() => context.close());

let projectDir = '';
beforeEach(async () => {
  projectDir = await mkdtemp(join(tmpdir(), 'trackers-'));
});

const acceleratorWith = (
  logWith: accelerate.AcceleratorOptions['logWith'],
  rank = 0,
): accelerate.Accelerator => {
  const { worldSize, localRank, group, mesh } = context;
  const own = { rank, worldSize, localRank, group, mesh };
  return new accelerate.Accelerator({ context: own, projectDir, ...(logWith && { logWith }) });
};

describe('the trackers of an Accelerator', () => {
  it('write rows of CSV into the folder of the project', async () => {
    const accelerator = acceleratorWith('csv');
    await accelerator.initTrackers('project');
    await accelerator.log({ loss: 0.5, 'a,b': 1 }, { step: 3 });
    await accelerator.log({ loss: 0.25 });
    await accelerator.endTraining();
    expect(await readFile(join(projectDir, 'project', 'metrics.csv'), 'utf8')).toBe(
      'step,name,value\n3,loss,0.5\n3,"a,b",1\n1,loss,0.25\n',
    );
  });

  it('write an event file of TensorBoard, with the settings beside it', async () => {
    const accelerator = acceleratorWith(['tensorboard']);
    await accelerator.initTrackers('project', { lr: 0.1, mixedPrecision: 'no' });
    await accelerator.log({ loss: 0.5 }, { step: 3 });
    const names = await readdir(join(projectDir, 'project'));
    expect(names.toSorted()).toEqual([
      expect.stringMatching(/^events\.out\.tfevents\./),
      'hparams.yml',
    ]);
    expect(await readFile(join(projectDir, 'project', 'hparams.yml'), 'utf8')).toBe(
      'lr: 0.1\nmixedPrecision: "no"\n',
    );
  });

  it('are functions and objects of your own, beside those with names', async () => {
    const logged: unknown[] = [];
    const note = (values: accelerate.TrackedValues, step: number): void => {
      logged.push([step, values]);
    };
    const own: accelerate.Tracker = {
      name: 'own',
      start: ({ name, directory }) => void logged.push([name, directory]),
      log: note,
      finish: () => void logged.push('end'),
    };
    const accelerator = acceleratorWith([note, own, 'csv']);
    await accelerator.initTrackers('project');
    await accelerator.log({ loss: 1 });
    await accelerator.endTraining();
    expect(logged).toEqual([
      ['project', join(projectDir, 'project')],
      [0, { loss: 1 }],
      [0, { loss: 1 }],
      'end',
    ]);
    expect(accelerator.getTracker('own')).toBe(own);
    expect(accelerator.getTracker('csv').name).toBe('csv');
    expect(() => accelerator.getTracker('wandb')).toThrow(/names note, own, csv/);
  });

  it('write nothing on other ranks than 0', async () => {
    const calls: unknown[] = [];
    const accelerator = acceleratorWith([(values) => void calls.push(values), 'csv'], 1);
    await accelerator.initTrackers('project');
    await accelerator.log({ loss: 1 });
    await accelerator.endTraining();
    expect(calls).toEqual([]);
    expect(await readdir(projectDir)).toEqual([]);
  });

  it('say that there are none', async () => {
    const log = vi.spyOn(console, 'log').mockImplementation(() => {});
    const accelerator = acceleratorWith(undefined);
    await accelerator.initTrackers('project');
    await accelerator.log({ loss: 1 });
    expect(log.mock.calls).toEqual([
      ['project: nothing is logged, because the Accelerator has no logWith'],
    ]);
    log.mockRestore();
  });

  it('refuse what they cannot keep', async () => {
    // @ts-expect-error: no such tracker.
    expect(() => acceleratorWith('wandb')).toThrow(/Give tensorboard, csv, a function/);
    const accelerator = acceleratorWith('csv');
    await expect(accelerator.log({ loss: 1 })).rejects.toThrow(/initTrackers\('project'\)/);
    await accelerator.initTrackers('project');
    // @ts-expect-error: a tensor is no number.
    await expect(accelerator.log({ loss: ones([]) })).rejects.toThrow(/await loss\.item\(\)/);
    await expect(accelerator.initTrackers('')).rejects.toThrow(/projectName/);
  });
});
