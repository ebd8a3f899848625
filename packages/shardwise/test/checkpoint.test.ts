import { mkdtemp, readdir, readFile, truncate, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { CheckpointError, decodeSafetensors, type HostArrays } from '@shardwise/core';
import { beforeEach, describe, expect, it } from 'vitest';
import { durableFiles, type DurableFiles } from '../src/checkpoint/durable-files.ts';
import { findCheckpoint, loadCheckpoint } from '../src/checkpoint/load-checkpoint.ts';
import {
  saveCheckpoint,
  writeCheckpoint,
  type CheckpointContents,
} from '../src/checkpoint/save-checkpoint.ts';

let directory = '';
beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), 'shardwise-checkpoint-'));
});

function vector(...values: number[]): HostArrays[string] {
  const bytes = new Uint8Array(Float32Array.from(values).buffer);
  return { dtype: 'f32', shape: [values.length], bytes };
}

function contents(step: number): CheckpointContents {
  return {
    step,
    worldSize: 2,
    model: { 'head.weight': vector(step, 2, 3), 'head.bias': vector(-1) },
    optimizer: { 'head.weight.exp_avg': vector(0.5, step, 0) },
    extra: { sampler: { epoch: 1, seed: 42 }, note: 'after warm-up' },
  };
}

/** A disk that crashes in the middle of operation number `crashAt`, counted from 0. */
function crashingFiles(crashAt: number): { files: DurableFiles; operations: () => number } {
  let operations = 0;
  const crash = new Error('power failure');
  const guard = async (work: () => Promise<void>, half?: () => Promise<void>): Promise<void> => {
    operations += 1;
    if (operations - 1 > crashAt) throw crash;
    if (operations - 1 === crashAt) {
      await half?.();
      throw crash;
    }
    await work();
  };
  const files: DurableFiles = {
    makeDirectory: (path) => guard(() => durableFiles.makeDirectory(path)),
    writeFile: (path, chunks) =>
      guard(
        () => durableFiles.writeFile(path, chunks),
        async () => {
          const all = Buffer.concat([...chunks]);
          await writeFile(path, all.subarray(0, all.byteLength / 2));
        },
      ),
    rename: (from, to) => guard(() => durableFiles.rename(from, to)),
    removeDirectory: (path) => guard(() => durableFiles.removeDirectory(path)),
    syncDirectory: (path) => guard(() => durableFiles.syncDirectory(path)),
  };
  return { files, operations: () => operations };
}

describe('a checkpoint', () => {
  it('comes back with every byte, the step and the extra state', async () => {
    const folder = await saveCheckpoint(directory, contents(7));
    const loaded = await loadCheckpoint(directory);
    expect(loaded).toEqual({ directory: folder, ...contents(7) });
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

  it('holds the model as a plain safetensors file', async () => {
    const folder = await saveCheckpoint(directory, contents(7));
    const { tensors } = decodeSafetensors(await readFile(join(folder, 'model.safetensors')));
    expect(tensors['head.weight']?.shape).toEqual([3]);
    expect(tensors['head.bias']?.dtype).toBe('f32');
  });

  it('may lie in shared memory', async () => {
    const bytes = new Uint8Array(new SharedArrayBuffer(8));
    bytes.set([1, 2, 3, 4, 5, 6, 7, 8]);
    const model: HostArrays = { w: { dtype: 'i32', shape: [2], bytes } };
    await saveCheckpoint(directory, { step: 0, model });
    expect([...((await loadCheckpoint(directory)).model['w']?.bytes ?? [])]).toEqual([...bytes]);
  });
});

describe('a crash while a checkpoint is written', () => {
  it('at any operation leaves the last good checkpoint or the new one, never less', async () => {
    const counting = crashingFiles(Infinity);
    await writeCheckpoint(counting.files, directory, contents(1));
    await writeCheckpoint(crashingFiles(4).files, directory, contents(2)).catch(() => undefined);
    const outcomes: number[] = [];
    for (let crashAt = 0; crashAt < counting.operations(); crashAt += 1) {
      const { files } = crashingFiles(crashAt);
      await expect(writeCheckpoint(files, directory, contents(3))).rejects.toThrow('power failure');
      const { step } = await loadCheckpoint(directory);
      expect([1, 3]).toContain(step);
      outcomes.push(step);
    }
    expect(outcomes).toEqual(outcomes.toSorted((a, b) => a - b));
    expect(outcomes[0]).toBe(1);
  });

  it('leaves no rubbish after the next save', async () => {
    await writeCheckpoint(crashingFiles(4).files, directory, contents(1)).catch(() => undefined);
    expect(await readdir(directory)).toHaveLength(1);
    await saveCheckpoint(directory, contents(1));
    expect((await readdir(directory)).sort()).toEqual(['latest', 'step-000001']);
  });
});

describe('a checkpoint that cannot be loaded', () => {
  it('is refused where the folder holds none', async () => {
    await expect(loadCheckpoint(directory)).rejects.toThrow(CheckpointError);
    await expect(loadCheckpoint(directory)).rejects.toThrow(
      /there is no state.json, and no "latest"/,
    );
  });

  it('is refused with the lengths where a file is cut', async () => {
    const folder = await saveCheckpoint(directory, contents(7));
    await truncate(join(folder, 'model.safetensors'), 100);
    await expect(loadCheckpoint(directory)).rejects.toThrow(/expected \d+ bytes, found 100/);
  });

  it('is refused where a single bit of a weight has flipped', async () => {
    const folder = await saveCheckpoint(directory, contents(7));
    const path = join(folder, 'optimizer.safetensors');
    const bytes = await readFile(path);
    bytes[bytes.byteLength - 1] = (bytes.at(-1) ?? 0) ^ 1;
    await writeFile(path, bytes);
    await expect(loadCheckpoint(directory)).rejects.toThrow(/expected CRC-32 \d+, found \d+/);
  });

  it('is refused where state.json is of another version', async () => {
    const folder = await saveCheckpoint(directory, contents(7));
    const path = join(folder, 'state.json');
    const text = await readFile(path, 'utf8');
    await writeFile(path, text.replace('"version": 1', '"version": 2'));
    await expect(loadCheckpoint(directory)).rejects.toThrow(
      /"version" is not what version 1 writes/,
    );
  });

  it('is refused where "latest" points out of the folder', async () => {
    await writeFile(join(directory, 'latest'), '../../etc');
    await expect(findCheckpoint(directory)).rejects.toThrow(/"latest" names no checkpoint/);
  });
});
