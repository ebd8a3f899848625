import { mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import {
  CheckpointError,
  encodeSafetensors,
  fromHostArray,
  manualSeed,
  nn,
  optim,
  setRank,
  tensor,
} from '@shardwise/core';
import { interpreter } from '@shardwise/testing';
import { checkpoints } from 'shardwise';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';

let directory = '';
let path = '';

beforeEach(async () => {
  setRank({ device: interpreter() });
  manualSeed(0);
  directory = await mkdtemp(join(tmpdir(), 'shardwise-files-'));
  path = join(directory, 'file.safetensors');
});
afterEach(() => rm(directory, { recursive: true, force: true }));

describe('a file of tensors', () => {
  test('has what was saved: tensors, and the state of a model', async () => {
    const model = new nn.Linear(2, 3);
    const x = tensor([
      [1, 2],
      [3, 4],
    ]).to('bf16');
    await checkpoints.saveTensorFile(path, {
      ...(await model.stateDict()),
      x,
      sum: x.to('i32').sum(),
    });
    const { x: saved, sum, ...dict } = await checkpoints.loadTensorFile(path);
    const other = new nn.Linear(2, 3);
    await other.loadStateDict(dict);
    expect(await other.weight.data()).toEqual(await model.weight.data());
    if (saved === undefined || sum === undefined) throw new RangeError();
    expect(await fromHostArray(saved).data()).toEqual(await x.data());
    expect(fromHostArray(saved).dtype).toBe('bf16');
    expect(await fromHostArray(sum).item()).toBe(10);
  });

  test('is what the format says, byte for byte', async () => {
    const dict = await new nn.Linear(2, 3).stateDict();
    await checkpoints.saveTensorFile(path, dict);
    expect(new Uint8Array(await readFile(path))).toEqual(encodeSafetensors(dict, { format: 'pt' }));
  });

  test('takes the place of an earlier one, and leaves nothing beside it', async () => {
    for (const value of [1, 2]) await checkpoints.saveTensorFile(path, { x: tensor([value]) });
    const { x } = await checkpoints.loadTensorFile(path);
    expect(x && (await fromHostArray(x).item())).toBe(2);
    expect(await readdir(directory)).toEqual(['file.safetensors']);
  });

  test('may be the index of several', async () => {
    const shards = { 'a.safetensors': { x: tensor([1]) }, 'b.safetensors': { y: tensor([2]) } };
    for (const [name, tensors] of Object.entries(shards)) {
      await checkpoints.saveTensorFile(join(directory, name), tensors);
    }
    const index = join(directory, 'model.safetensors.index.json');
    const map = { x: 'a.safetensors', y: 'b.safetensors' };
    await writeFile(index, JSON.stringify({ metadata: {}, weight_map: map }));
    const { x, y } = await checkpoints.loadTensorFile(index);
    if (x === undefined || y === undefined) throw new RangeError();
    expect([await fromHostArray(x).item(), await fromHostArray(y).item()]).toEqual([1, 2]);
    await rm(join(directory, 'b.safetensors'));
    await expect(checkpoints.loadTensorFile(index)).rejects.toThrow(/b\.safetensors: no such file/);
  });

  test('that cannot be written or read says why', async () => {
    const missing = join(directory, 'none', 'file.safetensors');
    await expect(checkpoints.saveTensorFile(missing, { x: tensor([1]) })).rejects.toThrow(
      CheckpointError,
    );
    await expect(checkpoints.loadTensorFile(missing)).rejects.toThrow(
      /Loading tensors of .*no such file/s,
    );
    await writeFile(path, 'no tensors');
    await expect(checkpoints.loadTensorFile(path)).rejects.toThrow(`Loading tensors of ${path}: `);
  });

  test('refuses what is no tensor', async () => {
    const state = await new optim.SGD(new nn.Linear(1, 1).parameters()).stateDict();
    await expect(checkpoints.saveTensorFile(path, state as never)).rejects.toThrow(
      'saveStateFile(path, optimizer)',
    );
    expect(() => fromHostArray({ dtype: 'f32', shape: [2], bytes: new Uint8Array(4) })).toThrow(
      '4 bytes',
    );
  });
});

describe('a file of a state', () => {
  test('has an optimizer and its schedule go on with the same bits', async () => {
    const build = () => {
      manualSeed(1);
      const model = new nn.Linear(2, 3);
      const optimizer = new optim.Adafactor(model.parameters(), { lr: 0.1 });
      const schedule = new optim.LearningRateScheduler(optimizer, optim.exponentialSchedule(0.5));
      const step = async (): Promise<void> => {
        optimizer.zeroGrad();
        model
          .forward(tensor([[1, 2]]))
          .square()
          .sum()
          .backward();
        await optimizer.step();
        schedule.step();
      };
      return { model, optimizer, schedule, step };
    };
    const [first, second] = [build(), build()];
    for (let i = 0; i < 3; i++) await first.step();
    await checkpoints.saveTensorFile(path, await first.model.stateDict());
    await checkpoints.saveStateFile(`${path}.optimizer`, first.optimizer);
    await checkpoints.saveStateFile(`${path}.schedule`, first.schedule);
    await second.model.loadStateDict(await checkpoints.loadTensorFile(path));
    await checkpoints.loadStateFile(`${path}.optimizer`, second.optimizer);
    await checkpoints.loadStateFile(`${path}.schedule`, second.schedule);
    for (const each of [first, second]) await each.step();
    expect(await second.model.stateDict()).toEqual(await first.model.stateDict());
    expect(second.schedule.learningRates).toEqual(first.schedule.learningRates);
  });

  test('has an average of weights go on', async () => {
    const model = new nn.Linear(2, 1);
    const [first, second] = [0, 1].map(() => new optim.AveragedWeights(model, { decay: 0.5 }));
    if (first === undefined || second === undefined) throw new RangeError();
    first.update();
    model.weight.assign(tensor([[8, 9]]));
    await checkpoints.saveStateFile(path, first);
    await checkpoints.loadStateFile(path, second);
    for (const each of [first, second]) each.update();
    expect(await second.stateDict()).toEqual(await first.stateDict());
  });

  test('is not one of tensors alone, nor one that was tampered with', async () => {
    const optimizer = new optim.SGD(new nn.Linear(1, 1).parameters());
    await checkpoints.saveTensorFile(path, { x: tensor([1]) });
    await expect(checkpoints.loadStateFile(path, optimizer)).rejects.toThrow(
      'tensors alone are read by loadTensorFile',
    );
    for (const [metadata, says] of [
      ['{', 'metadata that say nothing'],
      ['{"value":null,"tensors":[{"path":["a"],"name":"a"}]}', "no tensor 'a'"],
    ] as const) {
      await writeFile(path, encodeSafetensors({}, { 'shardwise.state': metadata }));
      await expect(checkpoints.loadStateFile(path, optimizer)).rejects.toThrow(says);
    }
  });
});
