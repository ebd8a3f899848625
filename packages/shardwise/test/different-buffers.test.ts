import { mkdtemp } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { cpu } from '@shardwise/backend-cpu';
import { createThreadsWorld, joinThreadsWorld } from '@shardwise/collectives';
import { fromData, nn, setRank } from '@shardwise/core';
import { afterEach, beforeAll, beforeEach, describe, expect, it, vi } from 'vitest';
import { diskFiles } from '../src/checkpoint/places/disk-files.ts';
import { CheckpointSaver } from '../src/checkpoint/save/checkpoint-saver.ts';
import { loadCheckpoint } from '../src/checkpoint/load/load-checkpoint.ts';

let directory = '';
const warn = vi.spyOn(console, 'warn').mockImplementation(() => undefined);
beforeAll(async () => {
  setRank({ device: await cpu() });
});
beforeEach(async () => {
  warn.mockClear();
  directory = await mkdtemp(join(tmpdir(), 'shardwise-buffers-'));
});
afterEach(() => warn.mockClear());

/** Saves the models of two ranks of this thread `saves` times, and returns the last checkpoint's folder. */
async function save(models: readonly nn.Module[], saves: number): Promise<string> {
  const world = createThreadsWorld({ size: 2 });
  const folders = await Promise.all(
    models.map(async (model, rank) => {
      const group = joinThreadsWorld(world, rank);
      const saver = new CheckpointSaver({ directory, group, files: diskFiles });
      let folder = '';
      for (let step = 1; step <= saves; step += 1) folder = await saver.save({ step, model }, {});
      await saver.close();
      group.close();
      return folder;
    }),
  );
  return folders[0] ?? '';
}

/** A model of which this rank has seen one batch, with the given value everywhere. */
function trainedOn(value: number): nn.BatchNorm1d {
  const model = new nn.BatchNorm1d(2);
  model.forward(fromData(new Float32Array(8).fill(value), [4, 2], 'f32'));
  return model;
}

describe('saving a model whose ranks have seen other batches', () => {
  it('warns once, on rank 0, of the buffers that differ, and saves those of rank 0', async () => {
    const folder = await save([trainedOn(1), trainedOn(3)], 2);
    expect(warn.mock.calls).toEqual([
      [
        "shardwise: the checkpoint has rank 0's values of the buffers running_mean, which differ between ranks 0 and 1. " +
          'nn.convertSyncBatchNorm(model) keeps statistics of the batches of all ranks. broadcastBuffers, an option of ddp, zero and fsdp, ' +
          'gives all ranks the buffers of rank 0 at the next forward pass of the planned model',
      ],
    ]);
    const { model } = await loadCheckpoint(folder);
    const [name = ''] = model.names.filter((each) => each.toLowerCase().includes('mean'));
    const { bytes } = await model.read(name);
    expect([...new Float32Array(bytes.slice().buffer)]).toEqual([
      expect.closeTo(0.1),
      expect.closeTo(0.1),
    ]);
  });

  it('says nothing where the ranks have seen the same batches', async () => {
    await save([trainedOn(2), trainedOn(2)], 1);
    expect(warn).not.toHaveBeenCalled();
  });
});
