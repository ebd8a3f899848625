import { mkdir, mkdtemp, readdir, readFile, rm, truncate, writeFile } from 'node:fs/promises';
import { hostname, tmpdir } from 'node:os';
import { join } from 'node:path';
import { createThreadsWorld, joinThreadsWorld } from '@shardwise/collectives';
import {
  CheckpointError,
  ConfigError,
  decodeSafetensors,
  type HostArrays,
  type ProcessGroup,
} from '@shardwise/core';
import { beforeEach, describe, expect, it } from 'vitest';
import { beginSave } from '../src/checkpoint/save/begin-save.ts';
import type {
  CheckpointContents,
  RankContents,
} from '../src/checkpoint/save/checkpoint-contents.ts';
import { CheckpointSaver } from '../src/checkpoint/save/checkpoint-saver.ts';
import { diskFiles } from '../src/checkpoint/places/disk-files.ts';
import type { CheckpointFiles } from '../src/checkpoint/places/checkpoint-files.ts';
import { findCheckpoint } from '../src/checkpoint/places/find-checkpoint.ts';
import { finishSave } from '../src/checkpoint/save/finish-save.ts';
import { loadCheckpoint } from '../src/checkpoint/load/load-checkpoint.ts';
import { saveCheckpoint } from '../src/checkpoint/save/save-checkpoint.ts';

let directory = '';
beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), 'shardwise-checkpoint-'));
});

function vector(...values: number[]): HostArrays[string] {
  const bytes = new Uint8Array(Float32Array.from(values).buffer);
  return { dtype: 'f32', shape: [values.length], bytes };
}

function contents(step: number, rank = 0): CheckpointContents {
  return {
    step,
    model: { 'head.weight': vector(step, 2, 3), 'head.bias': vector(-1) },
    extra: { sampler: { epoch: 1, seed: 42 }, note: 'after warm-up' },
    rankExtra: { generator: rank },
  };
}

/** Runs `body` on every rank of a world. All ranks are in this thread. */
async function onRanks<T>(
  size: number,
  body: (group: ProcessGroup) => Promise<T>,
): Promise<readonly PromiseSettledResult<T>[]> {
  const world = createThreadsWorld({ size });
  const groups = Array.from({ length: size }, (_, rank) => joinThreadsWorld(world, rank));
  const outcomes = await Promise.allSettled(groups.map(body));
  for (const group of groups) group.close();
  return outcomes;
}

interface CrashingDisk {
  readonly files: CheckpointFiles;
  readonly operations: () => number;
}

/** A disk that fails in the middle of operation number `crashAt`, counted from 0. */
function crashingDisk(crashAt: number, crash = new Error('power failure')): CrashingDisk {
  let operations = 0;
  const guard = async (work: () => Promise<void>, half?: () => Promise<void>): Promise<void> => {
    operations += 1;
    if (operations - 1 > crashAt) throw crash;
    if (operations - 1 === crashAt) {
      await half?.();
      throw crash;
    }
    await work();
  };
  const files: CheckpointFiles = {
    ...diskFiles,
    makeDirectory: (path) => guard(() => diskFiles.makeDirectory(path)),
    writeFile: (path, chunks) =>
      guard(
        () => diskFiles.writeFile(path, chunks),
        async () => {
          const parts: Uint8Array[] = [];
          for await (const chunk of chunks) parts.push(chunk);
          const all = Buffer.concat(parts);
          await writeFile(path, all.subarray(0, all.byteLength / 2));
        },
      ),
    rename: (from, to) => guard(() => diskFiles.rename(from, to)),
    publish: (...names) => guard(() => diskFiles.publish(...names)),
    withdraw: (...names) => guard(() => diskFiles.withdraw(...names)),
    removeDirectory: (path) => guard(() => diskFiles.removeDirectory(path)),
    syncDirectory: (path) => guard(() => diskFiles.syncDirectory(path)),
  };
  return { files, operations: () => operations };
}

const errors = (outcomes: readonly PromiseSettledResult<unknown>[]): readonly unknown[] =>
  outcomes.flatMap((each): readonly unknown[] => (each.status === 'rejected' ? [each.reason] : []));

describe('a checkpoint', () => {
  it('comes back with every byte, the step and the extra states', async () => {
    const folder = await saveCheckpoint(directory, contents(7));
    const { model, ...loaded } = await loadCheckpoint(directory);
    expect(loaded).toMatchObject({
      directory: folder,
      step: 7,
      worldSize: 1,
      extra: { sampler: { epoch: 1, seed: 42 }, note: 'after warm-up' },
      rankExtras: [{ generator: 0 }],
    });
    expect(model.names).toEqual(['head.weight', 'head.bias']);
    expect(await model.read('head.weight')).toEqual(vector(7, 2, 3));
    expect(await model.read('head.bias')).toEqual(vector(-1));
    await expect(model.read('tail')).rejects.toThrow(/no such tensor of the model among 2/);
  });

  it('is read from its own folder as well as through "latest"', async () => {
    const first = await saveCheckpoint(directory, contents(1));
    await saveCheckpoint(directory, contents(2));
    expect((await loadCheckpoint(first)).step).toBe(1);
    expect((await loadCheckpoint(directory)).step).toBe(2);
  });

  it('is found from the directory of its run', async () => {
    await saveCheckpoint(join(directory, 'checkpoints'), contents(4));
    expect((await loadCheckpoint(directory)).step).toBe(4);
  });

  it('of a step that was saved before goes to a folder of its own', async () => {
    await saveCheckpoint(directory, contents(3));
    await saveCheckpoint(directory, contents(3));
    expect((await readdir(directory)).sort()).toEqual(['latest', 'step-000003', 'step-000003-2']);
    expect((await loadCheckpoint(directory)).directory).toBe(join(directory, 'step-000003-2'));
  });

  it('of one rank holds the model as a plain safetensors file', async () => {
    const folder = await saveCheckpoint(directory, contents(7));
    const file = await readFile(join(folder, 'model-00001-of-00001.safetensors'));
    const { tensors } = decodeSafetensors(file);
    expect(tensors['head.weight']?.shape).toEqual([3]);
    expect(tensors['head.bias']?.dtype).toBe('f32');
  });

  it('may lie in shared memory, and hold tensors of no elements', async () => {
    const bytes = new Uint8Array(new SharedArrayBuffer(8));
    bytes.set([1, 2, 3, 4, 5, 6, 7, 8]);
    const model: HostArrays = {
      w: { dtype: 'i32', shape: [2], bytes },
      none: { dtype: 'f32', shape: [0, 3], bytes: new Uint8Array() },
    };
    await saveCheckpoint(directory, { step: 0, model });
    const loaded = await loadCheckpoint(directory);
    expect([...(await loaded.model.read('w')).bytes]).toEqual([...bytes]);
    expect(await loaded.model.read('none')).toEqual(model['none']);
  });

  it('of several ranks has the arrays of rank 0, and what each rank kept for itself', async () => {
    const outcomes = await onRanks(3, (group) =>
      saveCheckpoint(directory, contents(5, group.rank), { group }),
    );
    const folder = join(directory, 'step-000005');
    expect(outcomes).toEqual([0, 1, 2].map(() => ({ status: 'fulfilled', value: folder })));
    const { model, worldSize, rankExtras } = await loadCheckpoint(directory);
    expect(worldSize).toBe(3);
    expect(rankExtras).toEqual([{ generator: 0 }, { generator: 1 }, { generator: 2 }]);
    expect(await model.read('head.weight')).toEqual(vector(5, 2, 3));
  });

  it.each([0, -1, 1.5, Number.NaN])('is not saved to keep %d', async (keep) => {
    await expect(saveCheckpoint(directory, contents(1), { keep })).rejects.toThrow(ConfigError);
    expect(await readdir(directory)).toEqual([]);
  });
});

describe('checkpoints of which only some are kept', () => {
  it('are those written last, whatever their steps', async () => {
    for (const step of [300, 100, 200, 100]) {
      await saveCheckpoint(directory, contents(step), { keep: 2 });
    }
    expect((await readdir(directory)).sort()).toEqual(['latest', 'step-000100-2', 'step-000200']);
    expect((await loadCheckpoint(directory)).step).toBe(100);
  });

  it('leave other files and folders alone', async () => {
    await writeFile(join(directory, 'notes.txt'), '');
    await saveCheckpoint(directory, contents(1), { keep: 1 });
    await saveCheckpoint(directory, contents(2), { keep: 1 });
    expect((await readdir(directory)).sort()).toEqual(['latest', 'notes.txt', 'step-000002']);
  });
});

describe('a checkpoint that is written in the background', () => {
  const saverOf = (group: ProcessGroup, files: CheckpointFiles = diskFiles): CheckpointSaver =>
    new CheckpointSaver({ directory, group, files });

  it('has the values of the moment of the call, on all ranks, among other collectives', async () => {
    const outcomes = await onRanks(2, async (group) => {
      const saver = saverOf(group);
      const weight = vector(1, 2, 3);
      const model = { 'head.weight': weight };
      await saver.save({ ...contents(1), model }, { async: true });
      weight.bytes.fill(0);
      for (let call = 0; call < 20; call++) await group.barrier();
      const folder = await saver.save(contents(2), { async: true });
      await group.barrier();
      await saver.close();
      return folder;
    });
    expect(errors(outcomes)).toEqual([]);
    const first = await loadCheckpoint(join(directory, 'step-000001'));
    expect(await first.model.read('head.weight')).toEqual(vector(1, 2, 3));
    expect((await loadCheckpoint(directory)).step).toBe(2);
  });

  it('tells of its failure at the next save, and is then over with it', async () => {
    const outcomes = await onRanks(2, async (group) => {
      let broken = group.rank === 0;
      const saver = saverOf(group, {
        ...diskFiles,
        writeFile: (path, chunks) =>
          broken ? Promise.reject(new Error('cable out')) : diskFiles.writeFile(path, chunks),
      });
      await saver.save(contents(1), { async: true });
      const failed = await saver.save(contents(2)).catch((error: unknown) => error);
      broken = false;
      await saver.save(contents(3));
      return failed;
    });
    for (const outcome of outcomes) {
      expect(outcome).toMatchObject({ status: 'fulfilled', value: { code: 'CHECKPOINT' } });
      if (outcome.status === 'fulfilled') expect(outcome.value).toBeInstanceOf(CheckpointError);
    }
    expect((await loadCheckpoint(directory)).step).toBe(3);
    expect((await readdir(directory)).sort()).toEqual(['latest', 'step-000003']);
  });

  it('tells of its failure when the saver is closed', async () => {
    const [outcome] = await onRanks(1, async (group) => {
      const saver = saverOf(group, crashingDisk(3).files);
      await saver.save(contents(1), { async: true });
      await saver.close();
    });
    expect(outcome).toMatchObject({ status: 'rejected', reason: { code: 'CHECKPOINT' } });
  });
});

describe('a crash while a checkpoint is written', () => {
  const save = (files: CheckpointFiles, step: number): Promise<string> =>
    saveCheckpoint(directory, contents(step), { files });

  it('at any operation leaves the last good checkpoint or the new one, never less', async () => {
    const counting = crashingDisk(Infinity);
    await save(counting.files, 1);
    await save(crashingDisk(4).files, 2).catch(() => undefined);
    const outcomes: number[] = [];
    for (let crashAt = 0; crashAt < counting.operations(); crashAt += 1) {
      await expect(save(crashingDisk(crashAt).files, 3)).rejects.toThrow('power failure');
      const { step, model } = await loadCheckpoint(directory);
      expect(await model.read('head.weight')).toEqual(vector(step, 2, 3));
      outcomes.push(step);
    }
    expect(outcomes).toEqual(outcomes.toSorted((a, b) => a - b));
    expect(new Set(outcomes)).toEqual(new Set([1, 3]));
  });

  it('leaves no rubbish after the next save', async () => {
    await save(crashingDisk(4).files, 1).catch(() => undefined);
    expect(await readdir(directory)).toHaveLength(1);
    await saveCheckpoint(directory, contents(1));
    expect((await readdir(directory)).sort()).toEqual(['latest', 'step-000001']);
  });

  it('leaves a folder that is refused where it is named itself', async () => {
    for (let crashAt = 2; crashAt < 5; crashAt += 1) {
      await save(crashingDisk(crashAt).files, 2).catch(() => undefined);
      const [half = ''] = (await readdir(directory)).filter((name) => name.startsWith('.'));
      await expect(loadCheckpoint(join(directory, half))).rejects.toThrow(CheckpointError);
      await saveCheckpoint(directory, contents(3));
    }
  });

  it('while old ones are removed leaves only whole ones', async () => {
    const counting = crashingDisk(Infinity);
    await saveCheckpoint(directory, contents(1), { files: counting.files });
    const savedAfter = counting.operations();
    for (const crashAt of [savedAfter, savedAfter + 1]) {
      const { files } = crashingDisk(crashAt);
      await saveCheckpoint(directory, contents(1), { files, keep: 1 }).catch(() => undefined);
      for (const name of (await readdir(directory)).filter((each) => each.startsWith('step-'))) {
        const { model } = await loadCheckpoint(join(directory, name));
        expect(await model.read('head.bias')).toEqual(vector(-1));
      }
    }
  });
});

describe('a crash of one of the ranks that write their parts', () => {
  const sharded = (rank: number, value: number): RankContents => ({
    buffers: [],
    heldChunks: {
      model: [
        {
          name: 'w',
          dtype: 'f32',
          shape: [4],
          box: [{ start: 0, stop: 4 }],
          start: 2 * rank,
          stop: 2 * rank + 2,
          read: async () => vector(value, value + rank).bytes,
        },
      ],
      optimizer: [],
      states: [],
    },
    aliases: [],
    groups: [],
    extra: null,
    rankExtra: null,
    states: {},
  });

  const save = async (
    group: ProcessGroup,
    step: number,
    files: CheckpointFiles,
  ): Promise<string> => {
    const contents = async (): Promise<RankContents> => sharded(group.rank, step);
    const known = new Set<string>();
    const request = { files, directory, step, known, keep: undefined, contents, stage: false };
    return finishSave(group, await beginSave(group, request));
  };

  it.each([0, 1])('rank %i at any operation leaves a whole checkpoint', async (crashing) => {
    const counting = crashingDisk(Infinity);
    await onRanks(2, (group) =>
      save(group, 1, group.rank === crashing ? counting.files : diskFiles),
    );
    for (let crashAt = 0; crashAt < counting.operations(); crashAt += 1) {
      const disk = crashingDisk(crashAt).files;
      const outcomes = await onRanks(2, (group) =>
        save(group, 3, group.rank === crashing ? disk : diskFiles),
      );
      expect(errors(outcomes).map(String)).toEqual([
        expect.stringContaining(`rank ${crashing}: power failure`),
        expect.stringContaining(`rank ${crashing}: power failure`),
      ]);
      const { step, model } = await loadCheckpoint(directory);
      expect(crashing === 0 ? [1, 3] : [1]).toContain(step);
      expect(await model.read('w')).toEqual(vector(step, step, step, step + 1));
    }
  });

  it('is one error on all ranks where their parts do not fit', async () => {
    const outcomes = await onRanks(2, (group) => {
      const contents = async (): Promise<RankContents> => sharded(0, 1);
      const request = { files: diskFiles, directory, step: 1, known: new Set<string>() };
      return beginSave(group, { ...request, keep: undefined, contents, stage: false });
    });
    expect(errors(outcomes).map(String)).toEqual([
      expect.stringMatching(/the parts do not make up w \(\[0:2\] of 4 elements\)/),
      expect.stringMatching(/the parts do not make up w \(\[0:2\] of 4 elements\)/),
    ]);
    expect(await readdir(directory)).toEqual([]);
  });
});

describe('a rank that cannot write', () => {
  const full = Object.assign(new Error('ENOSPC: no space left on device, write'), {
    code: 'ENOSPC',
  });

  /** Rank 0 has arrays and rank 1 has none, so rank 1 fails when it syncs its directory. */
  const saveOn = (group: ProcessGroup, failing: number): Promise<string> =>
    saveCheckpoint(directory, contents(2), {
      group,
      files:
        group.rank === failing ? crashingDisk(group.rank === 0 ? 2 : 0, full).files : diskFiles,
    });

  it.each([0, 1])('lets all ranks fail with its reason: rank %i', async (failing) => {
    await saveCheckpoint(directory, contents(1));
    const outcomes = await onRanks(2, (group) => saveOn(group, failing));
    const found = errors(outcomes);
    expect(found).toHaveLength(2);
    for (const error of found) {
      expect(error).toBeInstanceOf(CheckpointError);
      expect(String(error)).toContain(
        `Saving a checkpoint of step 2 to ${directory}: rank ${failing}: ENOSPC: no space left on device, write. Make room on the disk`,
      );
    }
    expect((await loadCheckpoint(directory)).step).toBe(1);
    await saveCheckpoint(directory, contents(3));
    expect((await readdir(directory)).sort()).toEqual(['latest', 'step-000001', 'step-000003']);
  });
});

describe('two runs that save to one folder', () => {
  const saver = (group: ProcessGroup): CheckpointSaver =>
    new CheckpointSaver({ directory, group, files: diskFiles });

  it('are told, by the one that notices first, and lose nothing', async () => {
    const [outcome] = await onRanks(1, async (group) => {
      const [one, other] = [saver(group), saver(group)];
      await one.save(contents(1));
      await other.save(contents(1));
      await expect(one.save(contents(2))).rejects.toThrow(
        /another run has saved step-000001-2 there since this one began to\. Give each run a folder of its own/,
      );
      await other.save(contents(2));
    });
    expect(outcome?.status).toBe('fulfilled');
    expect((await readdir(directory)).sort()).toEqual([
      'latest',
      'step-000001',
      'step-000001-2',
      'step-000002',
    ]);
  });

  it('are none where a save fails after its checkpoint is in force', async () => {
    const [outcome] = await onRanks(1, async (group) => {
      let broken = true;
      const syncDirectory = (path: string): Promise<void> =>
        broken && path === directory
          ? Promise.reject(new Error('power failure'))
          : diskFiles.syncDirectory(path);
      const files = { ...diskFiles, syncDirectory };
      const one = new CheckpointSaver({ directory, group, files });
      await expect(one.save(contents(2))).rejects.toThrow('power failure');
      expect((await loadCheckpoint(directory)).step).toBe(2);
      broken = false;
      await one.save(contents(3));
    });
    expect(outcome?.status).toBe('fulfilled');
    expect((await loadCheckpoint(directory)).step).toBe(3);
  });

  it('at the same moment leave one whole checkpoint at least', async () => {
    const outcomes = await Promise.all(
      [0, 1].map(() => onRanks(1, (group) => saver(group).save(contents(1)))),
    );
    expect(outcomes.flat().some(({ status }) => status === 'fulfilled')).toBe(true);
    for (const error of errors(outcomes.flat())) expect(error).toBeInstanceOf(CheckpointError);
    const { model } = await loadCheckpoint(directory);
    expect(await model.read('head.weight')).toEqual(vector(1, 2, 3));
  });

  it('do not remove what another process is writing', async () => {
    const living = `.writing-${hostname()}-${process.ppid}-00000000`;
    await mkdir(join(directory, living));
    await saveCheckpoint(directory, contents(1));
    expect((await readdir(directory)).sort()).toEqual([living, 'latest', 'step-000001']);
  });
});

describe('a checkpoint that cannot be loaded', () => {
  const modelFile = 'model-00001-of-00001.safetensors';

  it('is refused where the folder holds none', async () => {
    await expect(loadCheckpoint(directory)).rejects.toThrow(CheckpointError);
    await expect(loadCheckpoint(directory)).rejects.toThrow(
      /there is no state.json, and no "latest"/,
    );
  });

  it('is refused where a file of it is given, with the folder that has it', async () => {
    const folder = await saveCheckpoint(directory, contents(7));
    for (const [file, has] of [
      [join(directory, 'latest'), directory],
      [join(folder, 'state.json'), folder],
    ] as const) {
      await expect(loadCheckpoint(file)).rejects.toThrow(CheckpointError);
      await expect(loadCheckpoint(file)).rejects.toThrow(
        `${file}: it is a file of checkpoints, no folder. Give the folder that has it: ${has}`,
      );
    }
  });

  it('is refused with the lengths where a file is cut', async () => {
    const folder = await saveCheckpoint(directory, contents(7));
    await truncate(join(folder, modelFile), 100);
    await expect(loadCheckpoint(directory)).rejects.toThrow(/expected \d+ bytes, found 100/);
  });

  it('is refused where a file is missing', async () => {
    const folder = await saveCheckpoint(directory, contents(7));
    await rm(join(folder, modelFile));
    await expect(loadCheckpoint(directory)).rejects.toThrow(/it is missing\. Load an earlier/);
  });

  it('is refused where a single bit of a weight has flipped, when that weight is read', async () => {
    const folder = await saveCheckpoint(directory, contents(7));
    const path = join(folder, modelFile);
    const bytes = await readFile(path);
    bytes[bytes.byteLength - 1] = (bytes.at(-1) ?? 0) ^ 1;
    await writeFile(path, bytes);
    const { model } = await loadCheckpoint(directory);
    await expect(model.read('head.weight')).rejects.toThrow(/expected CRC-32 \d+ from byte \d+/);
    expect(await model.read('head.bias')).toEqual(vector(-1));
  });

  it.each([
    ['of an older version', /"version": 5/, '"version": 2', /"version" is not what version 5/],
    ['with a hole in a tensor', /"start": 0/, '"start": 1', /the chunks of "head.weight" do not/],
    ['with a chunk too long', /"stop": 3/, '"stop": 4', /the chunks of "head.weight" do not/],
    ['with a chunk in no file', /"file": 0/, '"file": 1', /the chunks of "head.weight" do not/],
    ['with a dtype of its own', /"f32"/, '"f33"', /"model.tensors.0.dtype" is not what version 5/],
    [
      'with a box that the tensor has not',
      /"start": 0,\n\s+"stop": 3/,
      '"box": [{ "start": 1, "stop": 4 }], "start": 0, "stop": 3',
      /the chunks of "head.weight" do not/,
    ],
    ['of other ranks', /"worldSize": 1/, '"worldSize": 2', /1 files of 2 ranks/],
  ])('is refused with an index %s', async (_, text, replacement, message) => {
    const folder = await saveCheckpoint(directory, contents(7));
    const path = join(folder, 'state.json');
    const index = await readFile(path, 'utf8');
    expect(index).toMatch(text);
    await writeFile(path, index.replace(text, replacement));
    await expect(loadCheckpoint(directory)).rejects.toThrow(message);
  });

  it('is refused where "latest" points out of the folder', async () => {
    await writeFile(join(directory, 'latest'), '../../etc');
    await expect(findCheckpoint(diskFiles, directory)).rejects.toThrow(
      /"latest" names no checkpoint/,
    );
  });
});
