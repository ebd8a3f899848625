import { mkdtemp, rm, truncate } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { cpu } from '@shardwise/backend-cpu';
import { noGrad, setRank } from '@shardwise/core';
import { Generator } from '@shardwise/core/extend';
import { GPT2LMHeadModel } from '@shardwise/models';
import { complete, Engine } from '@shardwise/serve';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { fileName } from '../src/checkpoint/format/index-file.ts';
import { saveCheckpoint } from '../src/checkpoint/save/save-checkpoint.ts';
import { CheckpointFollower } from '../src/serve/follow-checkpoints.ts';

let run = '';
let lines: string[] = [];

beforeEach(async () => {
  setRank({ device: await cpu({ batchInvariant: true }) });
  run = await mkdtemp(join(tmpdir(), 'shardwise-reload-'));
  lines = [];
});
afterEach(() => rm(run, { recursive: true, force: true }));

function newModel(seed: number, channels = 16): GPT2LMHeadModel {
  const sizes = { vocabSize: 64, nPositions: 64, nEmbd: channels, nLayer: 2, nHead: 2 };
  return new GPT2LMHeadModel(
    { ...sizes, initializerRange: 0.5 },
    { generator: new Generator(seed) },
  );
}

function save(step: number, model: GPT2LMHeadModel, keep?: number): Promise<string> {
  return saveCheckpoint(
    join(run, 'checkpoints'),
    { step, model },
    keep === undefined ? {} : { keep },
  );
}

async function textOf(engine: Engine): Promise<string> {
  const request = { prompt: [1, 2, 3], maxNewTokens: 12, temperature: 0, logProbabilities: 0 };
  const [text] = await complete(engine.generate(request));
  return JSON.stringify(text);
}

/** What a model of this seed answers. */
async function expected(seed: number): Promise<string> {
  const engine = new Engine(newModel(seed));
  const text = await textOf(engine);
  await engine.dispose();
  return text;
}

function following(engine: Engine, model: GPT2LMHeadModel): CheckpointFollower {
  return new CheckpointFollower(
    engine,
    model,
    { place: run, everyMs: 10, inFlight: 'recompute' },
    (line) => lines.push(line),
  );
}

describe('a server that follows the checkpoints of a training', () => {
  it('takes the latest one, once', async () => {
    const model = newModel(1);
    const engine = new Engine(model);
    const follower = following(engine, model);
    await follower.look();
    expect([await textOf(engine), lines]).toEqual([await expected(1), []]);
    await save(1, newModel(2));
    await save(2, newModel(3));
    await follower.look();
    await follower.look();
    expect(await textOf(engine)).toBe(await expected(3));
    expect(lines).toEqual([expect.stringMatching(/^The weights are those of .*step-000002 now$/)]);
    expect(engine.statistics).toMatchObject({ weightsVersion: 'step-000002', weightsLoads: 1 });
    await engine.dispose();
  });

  it('keeps its weights if a file is cut off or damaged, says so once, and takes the next one', async () => {
    const model = newModel(1);
    const engine = new Engine(model);
    const follower = following(engine, model);
    const folder = await save(1, newModel(2));
    await truncate(join(folder, fileName('model', 0, 1)), 100);
    await follower.look();
    await follower.look();
    expect(lines).toEqual([
      expect.stringMatching(/^The weights stay as they were, because .*step-000001 .*100/),
    ]);
    expect(await textOf(engine)).toBe(await expected(1));
    await save(2, newModel(3));
    await follower.look();
    expect(await textOf(engine)).toBe(await expected(3));
    await engine.dispose();
  });

  it('keeps its weights if the checkpoint is that of another model', async () => {
    const model = newModel(1);
    const engine = new Engine(model);
    const follower = following(engine, model);
    await save(1, newModel(2, 32));
    await follower.look();
    await follower.look();
    expect(lines).toEqual([expect.stringContaining('shape')]);
    expect(await textOf(engine)).toBe(await expected(1));
    expect(engine.statistics.weightsLoadFailures).toBe(1);
    await engine.dispose();
  });

  it('looks until it is stopped, while a training goes on', async () => {
    const model = newModel(1);
    const trained = newModel(2);
    const engine = new Engine(model);
    const follower = following(engine, model);
    const followed = follower.follow();
    for (let step = 1; step <= 5; step++) {
      for (const parameter of trained.parameters()) {
        noGrad(() => parameter.assign(parameter.mul(1.01)));
      }
      await save(step, trained, 1);
      await textOf(engine);
    }
    await expect
      .poll(() => engine.statistics.weightsVersion, { timeout: 10_000 })
      .toBe('step-000005');
    follower.stop();
    await followed;
    const other = new Engine(trained);
    expect(await textOf(engine)).toBe(await textOf(other));
    await engine.dispose();
    await other.dispose();
  });
});
