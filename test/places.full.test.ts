import { mkdtemp, readdir, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createThreadsWorld } from '@shardwise/collectives';
import { CheckpointError, manualSeed, nn, noGrad, ones, optim, setRank } from '@shardwise/core';
import type { WritableFolder } from '@shardwise/core/extend';
import { s3Folder } from '@shardwise/core/node';
import { readJsonLines, Stream } from '@shardwise/data';
import { fileBytes, loadTokenizer, readImageFolder } from '@shardwise/data/node';
import { addLora, adapterFiles, LlamaForCausalLM } from '@shardwise/models';
import {
  fromPretrained,
  readAdapter,
  saveAdapter,
  saveOnnx,
  savePretrained,
} from '@shardwise/models/node';
import { interpreter } from '@shardwise/testing';
import { checkpoints } from 'shardwise';
import { z } from 'zod';
import { afterAll, beforeAll, beforeEach, describe, expect, it, vi } from 'vitest';
import { lossesSchema, type Task } from './ranks/train-in-a-bucket.ts';
import { runRanks } from './support/run-ranks.ts';
import { type S3Server, startS3 } from './support/s3-server.ts';

// Models, checkpoints and data sets lie in a bucket, and are used there as in a folder.

const url = new URL('./ranks/train-in-a-bucket.ts', import.meta.url);
const model = 's3://training/models/small';
const weights = 'models/small/model.safetensors';
const config = {
  vocabSize: 1024,
  hiddenSize: 128,
  intermediateSize: 512,
  numHiddenLayers: 1,
  numAttentionHeads: 4,
  numKeyValueHeads: 2,
  maxPositionEmbeddings: 16,
} as const;

let server: S3Server;
let folder = '';

beforeAll(async () => {
  server = await startS3();
  for (const [name, value] of Object.entries(server.environment)) vi.stubEnv(name, value);
  folder = await mkdtemp(join(tmpdir(), 'shardwise-places-'));
});
beforeEach(async () => {
  setRank({ device: interpreter() });
  manualSeed(0);
});
afterAll(async () => {
  vi.unstubAllEnvs();
  await rm(folder, { recursive: true });
  await server[Symbol.asyncDispose]();
});

async function train(ranks: number, data: Task): Promise<readonly number[]> {
  const world = createThreadsWorld({ size: ranks, arenaBytes: 64 * 1024 * 1024 });
  const found = await runRanks(ranks, url, { world, data, timeoutMs: 200_000 });
  const [losses = []] = z.array(lossesSchema).length(ranks).parse(found);
  return losses;
}

async function contentsOf(name: string): Promise<Buffer> {
  const file = await s3Folder('s3://training').open(name);
  const bytes = new Uint8Array(file?.byteLength ?? 0);
  await file?.read(bytes, 0);
  return Buffer.from(bytes);
}

describe('a model in a bucket', () => {
  it('is saved there as in a folder, byte for byte', async () => {
    const made = new LlamaForCausalLM(config);
    await savePretrained(made, join(folder, 'small'));
    await savePretrained(made, model);
    for (const name of await readdir(join(folder, 'small'))) {
      const expected = await readFile(join(folder, 'small', name));
      expect(Buffer.compare(await contentsOf(`models/small/${name}`), expected), name).toBe(0);
    }
    await savePretrained(made, 's3://training/models/sharded', { maxShardBytes: 6e5 });
    const names = (await s3Folder('s3://training/models/sharded').list('')).map(({ name }) => name);
    expect(names.length).toBeGreaterThan(3);
    const loaded = await fromPretrained('s3://training/models/sharded');
    expect(loaded.architecture).toBe('LlamaForCausalLM');
    // A save to the same place leaves no file of the one before.
    await savePretrained(made, 's3://training/models/sharded');
    const left = (await s3Folder('s3://training/models/sharded').list('')).map(({ name }) => name);
    expect(left).toEqual(['config.json', 'model.safetensors']);
  });

  const shardings = [
    ['one file', {}],
    ['shards', { maxShardBytes: 20_000 }],
  ] as const;
  const switches = shardings.flatMap(([from, first]) =>
    shardings.map(([to, second]) => ({ from, to, first, second })),
  );
  const small = { ...config, vocabSize: 64, hiddenSize: 32, intermediateSize: 64 };

  /** The sum of the weights of a model, by which it is told from others. Undefined if no model is found. */
  async function sumAt(place: string): Promise<number | undefined> {
    const loaded = await fromPretrained(place).catch((error: unknown) => {
      if (error instanceof CheckpointError && /no config\.json/.test(error.message))
        return undefined;
      throw error;
    });
    if (loaded === undefined) return undefined;
    const sums = await Promise.all(loaded.parameters().map((each) => each.sum().item()));
    return sums.reduce((sum, each) => sum + each, 0);
  }

  /** A folder that calls `look` before and after each of its changes, and while a file is written. */
  function watched(place: string, look: () => Promise<void>): WritableFolder {
    const inner = s3Folder(place);
    return {
      ...inner,
      write: async (name, chunks) => {
        await look();
        await inner.write(name, seen(chunks));
        await look();
      },
      remove: async (names) => {
        for (const name of names) {
          await inner.remove([name]);
          await look();
        }
      },
    };
    async function* seen(
      chunks: Iterable<Uint8Array> | AsyncIterable<Uint8Array>,
    ): AsyncGenerator<Uint8Array> {
      for await (const chunk of chunks) {
        yield chunk;
        await look();
      }
    }
  }

  it.each(switches)(
    'is at every moment of a save the old one or the new one: $from, then $to',
    async ({ from, to, first, second }) => {
      const place = `s3://training/models/switch-${from}-${to}`.replace(' ', '-');
      await savePretrained(new LlamaForCausalLM(small), place, first);
      const before = await sumAt(place);
      const found: (number | undefined)[] = [];
      const look = async (): Promise<void> => void found.push(await sumAt(place));
      await savePretrained(new LlamaForCausalLM(small), watched(place, look), second);
      const after = await sumAt(place);
      expect(after).not.toBe(before);
      expect(found.length).toBeGreaterThan(1);
      const switched = found.indexOf(after);
      expect(new Set(found.slice(0, switched))).toEqual(new Set([before]));
      expect(new Set(found.slice(switched))).toEqual(new Set([after]));
      const left = (await s3Folder(place).list('')).map(({ name }) => name).toSorted();
      const shards = left.filter((name) => name.endsWith('.safetensors'));
      if (to === 'one file') expect(left).toEqual(['config.json', 'model.safetensors']);
      else {
        const [, , count] = /^model-(.*-)?\d{5}-of-(\d{5})/.exec(shards[0] ?? '') ?? [];
        expect(left.length).toBe(Number(count) + 2);
      }
    },
  );

  it.each(switches)(
    'is never read with the config of another: $from, then $to in bf16',
    async ({ from, to, first, second }) => {
      const place = `s3://training/models/config-${from}-${to}`.replace(' ', '-');
      await savePretrained(new LlamaForCausalLM(small), place, first);
      const states: (readonly [config: unknown, weights: string])[] = [];
      const folder = s3Folder(place);
      const look = async (): Promise<void> => {
        const json = await folder.readText('config.json');
        if (json === undefined) return void states.push(['none', '']);
        const { dtype } = z.object({ dtype: z.string() }).parse(JSON.parse(json));
        const loaded = await fromPretrained(place, { dtype: 'auto' });
        states.push([dtype, loaded.parameters()[0]?.dtype ?? '']);
      };
      const made = new LlamaForCausalLM(small);
      await savePretrained(made, watched(place, look), { ...second, dtype: 'bf16' });
      const kinds = new Set(states.map((state) => state.join()));
      expect([...kinds].toSorted()).toEqual(['bfloat16,bf16', 'float32,f32', 'none,']);
    },
  );

  it.each(switches)(
    'stays as it was if a save fails: $from, then $to',
    async ({ from, to, first, second }) => {
      const place = `s3://training/models/failed-${from}-${to}`.replace(' ', '-');
      await savePretrained(new LlamaForCausalLM(small), place, first);
      const state = async (): Promise<readonly unknown[]> => {
        const entries = await s3Folder(place).list('');
        return [await sumAt(place), entries.map(({ name, byteLength }) => [name, byteLength])];
      };
      const before = await state();
      const folder = s3Folder(place);
      const broken: WritableFolder = {
        ...folder,
        write: async (name, chunks) => {
          if (!/(model|2-of-\d+)\.safetensors$/.test(name)) return folder.write(name, chunks);
          for await (const _ of chunks);
          throw new Error('the store is full');
        },
      };
      const made = new LlamaForCausalLM(small);
      await expect(savePretrained(made, broken, { ...second, dtype: 'bf16' })).rejects.toThrow(
        'the store is full',
      );
      expect(await state()).toEqual(before);
      // What the ranks cannot bring together does not come into being, either.
      const { weight } = made.model.norm;
      noGrad(() => weight.assign(weight.mul(70_000)));
      await expect(savePretrained(made, place, { ...second, dtype: 'f16' })).rejects.toThrow(
        "to save 'model.norm.weight' as f16",
      );
      expect(await state()).toEqual(before);
    },
  );

  it(
    'is loaded by two ranks that together read its bytes once, trained, and saved as by one rank',
    { timeout: 240_000 },
    async () => {
      const { byteLength } = await contentsOf(weights);
      const before = server.requests.length;
      const alone = await train(1, { model, steps: 1, saveTo: 's3://training/models/by-one' });
      const between = server.requests.length;
      const together = await train(2, { model, steps: 1, saveTo: 's3://training/models/by-two' });
      expect(Math.abs((alone[0] ?? NaN) - (together[0] ?? NaN))).toBeLessThan(1e-4);
      const bytesOf = (from: number, to?: number): number =>
        server.requests
          .slice(from, to)
          .filter(({ method, key }) => method === 'GET' && key === weights)
          .reduce((sum, { bytes }) => sum + bytes, 0);
      // Headers and small tensors come in blocks of 128 KiB.
      const blocks = 5 * 131_072;
      expect(bytesOf(before, between) - byteLength).toBeLessThan(blocks);
      expect(bytesOf(between) - byteLength).toBeLessThan(2 * blocks);
      const [one, two] = [
        await contentsOf('models/by-one/model.safetensors'),
        await contentsOf('models/by-two/model.safetensors'),
      ];
      expect([one.byteLength, two.byteLength]).toEqual([byteLength, byteLength]);
    },
  );

  it('is an error if it changes between its header and its tensors', async () => {
    const moved = 's3://training/models/moved';
    const made = new LlamaForCausalLM({ ...config, hiddenSize: 64 });
    await savePretrained(made, moved);
    let opened = 0;
    const place = s3Folder(moved);
    const changing: typeof place = {
      ...place,
      open: async (name) => {
        opened += name === 'model.safetensors' ? 1 : 0;
        if (opened === 5) await savePretrained(made, moved, { dtype: 'bf16' });
        return place.open(name);
      },
    };
    await expect(fromPretrained(changing)).rejects.toThrow(CheckpointError);
    expect(opened).toBe(5);
  });
});

describe('checkpoints in a bucket', () => {
  it(
    'are saved by two ranks with FSDP, and training goes on from them on one rank',
    { timeout: 240_000 },
    async () => {
      const small = 's3://training/models/smaller';
      await savePretrained(
        new LlamaForCausalLM({ ...config, vocabSize: 64, hiddenSize: 32, intermediateSize: 64 }),
        small,
      );
      const uninterrupted = await train(2, { model: small, steps: 4 });
      const place = 's3://training/runs/1/checkpoints';
      const first = await train(2, { model: small, checkpoints: place, steps: 2 });
      expect(first).toEqual(uninterrupted.slice(0, 2));
      const onOne = await train(1, { model: small, checkpoints: place, resumes: true, steps: 2 });
      expect(onOne.length).toBe(2);
      for (const [i, loss] of onOne.entries()) {
        expect(Math.abs(loss - (uninterrupted[i + 2] ?? NaN)), `${i}`).toBeLessThan(1e-4);
      }
    },
  );
});

describe('single files in a bucket', () => {
  it('have tensors and states, as files of the disk', async () => {
    const layer = new nn.Linear(3, 2);
    const optimizer = new optim.AdamW(layer.parameters());
    const place = 's3://training/files/layer.safetensors';
    const tensors = await layer.stateDict();
    await checkpoints.saveTensorFile(place, tensors);
    expect(await checkpoints.loadTensorFile(place)).toEqual(tensors);
    const path = join(folder, 'layer.safetensors');
    await checkpoints.saveTensorFile(path, tensors);
    const bytes = await contentsOf('files/layer.safetensors');
    expect(Buffer.compare(bytes, await readFile(path))).toBe(0);
    const state = 's3://training/files/optimizer.safetensors';
    layer
      .forward(ones([1, 3]))
      .sum()
      .backward();
    await optimizer.step();
    await checkpoints.saveStateFile(state, optimizer);
    const other = new optim.AdamW(layer.parameters());
    await checkpoints.loadStateFile(state, other);
    expect(await other.stateDict()).toEqual(await optimizer.stateDict());
    await expect(checkpoints.loadTensorFile('s3://training/files/none')).rejects.toThrow(
      CheckpointError,
    );
    await expect(
      checkpoints.saveTensorFile('https://localhost/layer.safetensors', tensors),
    ).rejects.toThrow('a place that can only be read');
  });

  it('have models of ONNX, and weights beside them', async () => {
    const layer = new nn.Linear(3, 2).eval();
    for (const externalData of [false, true]) {
      const path = join(folder, 'layer.onnx');
      const place = 's3://training/files/layer.onnx';
      await saveOnnx(path, layer, [ones([1, 3])], { externalData });
      await saveOnnx(place, layer, [ones([1, 3])], { externalData });
      for (const ending of externalData ? ['', '.data'] : ['']) {
        const bytes = await contentsOf(`files/layer.onnx${ending}`);
        expect(Buffer.compare(bytes, await readFile(`${path}${ending}`))).toBe(0);
      }
    }
    await expect(saveOnnx('https://localhost/layer.onnx', layer, [ones([1, 3])])).rejects.toThrow(
      'a place that can only be read',
    );
  });
});

describe('an adapter, a tokenizer and data sets in a bucket', () => {
  it('are saved and loaded', async () => {
    const adapted = addLora(new LlamaForCausalLM({ ...config, hiddenSize: 64 }), {
      rank: 2,
      targetModules: ['q_proj'],
    });
    await saveAdapter(adapted, 's3://training/adapters/1');
    expect(await readAdapter('s3://training/adapters/1')).toEqual(await adapterFiles(adapted));
    const vocab = { '[UNK]': 0, on: 1, many: 2, ranks: 3 };
    const json = {
      pre_tokenizer: { type: 'BertPreTokenizer' },
      model: { type: 'WordPiece', vocab, unk_token: '[UNK]' },
    };
    const place = s3Folder('s3://training/tokenizers/1');
    await place.write('tokenizer.json', [new TextEncoder().encode(JSON.stringify(json))]);
    const tokenizer = await loadTokenizer('s3://training/tokenizers/1');
    expect(tokenizer.encode('on many ranks').inputIds).toEqual([1, 2, 3]);
  });

  it('are streamed with few requests, each row once on two ranks', async () => {
    const lines = Array.from({ length: 8000 }, (_, n) =>
      JSON.stringify({ n, text: 'x'.repeat(20) }),
    );
    const bytes = new TextEncoder().encode(lines.join('\n'));
    await s3Folder('s3://training/data').write('train.jsonl', [bytes]);
    const before = server.requests.length;
    const seen: number[] = [];
    for (const rank of [0, 1]) {
      const rows = await readJsonLines(await fileBytes('s3://training/data/train.jsonl'));
      const stream = Stream.ofRows(rows).split({ rank, numReplicas: 2 });
      for await (const row of stream) seen.push(z.object({ n: z.number() }).parse(row).n);
    }
    expect(seen.length).toBe(lines.length);
    expect(new Set(seen).size).toBe(lines.length);
    // A rank reads the file once for its lines, and once for its rows, in blocks of 128 KiB.
    const reads = server.requests.slice(before).filter(({ method }) => method === 'GET');
    expect(reads.length).toBeLessThan(2 * (bytes.byteLength / 131_072 + 4));
    expect(reads.reduce((sum, read) => sum + read.bytes, 0)).toBeLessThan(4.5 * bytes.byteLength);
  });

  it('may be folders of images', async () => {
    const place = s3Folder('s3://training/images');
    for (const name of ['cat/2.png', 'cat/1.jpg', 'dog/a/3.jpeg', 'dog/notes.txt', 'top.png']) {
      await place.write(name, [new TextEncoder().encode(name)]);
    }
    const images = await readImageFolder('s3://training/images');
    expect([images.length, images.classes]).toEqual([3, ['cat', 'dog']]);
    const { bytes, label } = await images.get(2);
    expect([new TextDecoder().decode(bytes), label]).toEqual(['dog/a/3.jpeg', 1]);
    expect(images.nameOf(0)).toBe('s3://training/images/cat/1.jpg');
  });
});
