import { mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { cpu } from '@shardwise/backend-cpu';
import { createThreadsWorld, joinThreadsWorld } from '@shardwise/collectives';
import { LineMesh, setRank } from '@shardwise/core';
import { addLora, loadAdapter } from '@shardwise/models';
import { readAdapter, saveAdapter } from '@shardwise/models/node';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { SmallLanguage } from './small-language.ts';

let folder = '';

beforeAll(async () => {
  const group = joinThreadsWorld(createThreadsWorld({ size: 1 }), 0);
  setRank({ device: await cpu(), mesh: new LineMesh('dp', group) });
  folder = await mkdtemp(join(tmpdir(), 'shardwise-adapter-'));
});

afterAll(() => rm(folder, { recursive: true, force: true }));

const adapted = (): SmallLanguage => addLora(new SmallLanguage(), { targetModules: ['up_proj'] });

test('an adapter that was saved in a folder is loaded from it', async () => {
  const model = adapted();
  const own = join(folder, 'new', 'adapter');
  await saveAdapter(model, own, { baseModelNameOrPath: 'a base' });
  expect((await readdir(own)).toSorted()).toEqual([
    'adapter_config.json',
    'adapter_model.safetensors',
  ]);
  const config = await readFile(join(own, 'adapter_config.json'), 'utf8');
  expect(JSON.parse(config)).toMatchObject({ base_model_name_or_path: 'a base', r: 8 });
  const other = adapted();
  const name = 'layers.0.up_proj.lora_A.weight';
  const valueOf = async (from: SmallLanguage): Promise<number[]> => {
    const parameter = new Map(from.namedParameters()).get(name) ?? expect.fail(name);
    return [...(await parameter.data())].map(Number);
  };
  expect(await valueOf(other)).not.toEqual(await valueOf(model));
  await loadAdapter(other, await readAdapter(own));
  expect(await valueOf(other)).toEqual(await valueOf(model));
});

test('a folder without adapter, and a config that is no JSON, are refused by their paths', async () => {
  await expect(readAdapter(folder)).rejects.toThrow(
    `to read ${join(folder, 'adapter_config.json')}: no such file`,
  );
  const own = join(folder, 'damaged');
  await saveAdapter(adapted(), own);
  const path = join(own, 'adapter_config.json');
  await writeFile(path, '{"peft_type": ');
  await expect(readAdapter(own)).rejects.toThrow(`to read ${path}`);
});
