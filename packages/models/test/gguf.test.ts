import { readFileSync } from 'node:fs';
import { CheckpointError, setRank } from '@shardwise/core';
import {
  type Chunk,
  dtypes,
  type DType,
  fromBytes,
  pickedFolder,
  roundArray,
  type TensorSource,
  wholeChunk,
} from '@shardwise/core/extend';
import { fromPretrained, ggufTokenizer } from '@shardwise/models';
import { Tokenizer } from '@huggingface/tokenizers';
import { interpreter } from '@shardwise/testing';
import { beforeAll, describe, expect, it } from 'vitest';
import { z } from 'zod';
import { ggufSource } from '../src/weights/gguf/gguf-source.ts';

const bytesOf = (text: string): Uint8Array<ArrayBuffer> =>
  new Uint8Array(Buffer.from(text, 'base64'));
const golden = z
  .object({ file: z.string().transform(bytesOf), values: z.record(z.string(), z.string()) })
  .parse(JSON.parse(readFileSync(`${import.meta.dirname}/golden/gguf.json`, 'utf8')));

/** The names in the file, and those in the model. */
const names = {
  token_embd: 'model.embed_tokens',
  output_norm: 'model.norm',
  'blk.0.attn_norm': 'model.layers.0.input_layernorm',
  'blk.0.attn_q': 'model.layers.0.self_attn.q_proj',
  'blk.0.attn_k': 'model.layers.0.self_attn.k_proj',
  'blk.0.attn_v': 'model.layers.0.self_attn.v_proj',
  'blk.0.attn_output': 'model.layers.0.self_attn.o_proj',
  'blk.0.ffn_norm': 'model.layers.0.post_attention_layernorm',
  'blk.0.ffn_gate': 'model.layers.0.mlp.gate_proj',
  'blk.0.ffn_up': 'model.layers.0.mlp.up_proj',
  'blk.0.ffn_down': 'model.layers.0.mlp.down_proj',
} as const;

const name = 'model.gguf';
const folderOf = (file: Uint8Array<ArrayBuffer>) => pickedFolder([new File([file], name)]);

function valuesOf(stored: string): Float32Array {
  return new Float32Array(bytesOf(golden.values[stored] ?? '').buffer);
}

async function read(source: TensorSource, tensor: string, chunk?: Chunk): Promise<Float32Array> {
  const type = source.get(tensor);
  if (type === undefined) throw new RangeError(tensor);
  const all = chunk ?? wholeChunk(type.shape);
  await using reader = source.open();
  const bytes = new Uint8Array((all.stop - all.start) * dtypes[type.dtype].bytes);
  await reader.fill(tensor, all, bytes, { layout: { dims: [], partial: [] } });
  return floats(bytes, type.dtype);
}

function floats(bytes: Uint8Array, dtype: DType): Float32Array {
  const array = roundArray(
    { dtype, shape: [bytes.byteLength / dtypes[dtype].bytes], bytes },
    'f32',
  );
  return Float32Array.from(fromBytes(array?.bytes ?? new Uint8Array(), 'f32'), Number);
}

beforeAll(() => setRank({ device: interpreter() }));

describe('a GGUF file', () => {
  it('has the tensors that gguf decodes, under the names and in the order of Hugging Face', async () => {
    const source = await ggufSource(folderOf(golden.file), name);
    expect(source.names.toSorted()).toEqual(
      Object.values(names)
        .map((each) => `${each}.weight`)
        .toSorted(),
    );
    for (const [stored, inModel] of Object.entries(names)) {
      expect(await read(source, `${inModel}.weight`), stored).toEqual(valuesOf(stored));
    }
  });

  it.each([
    'token_embd',
    'blk.0.attn_q',
    'blk.0.attn_k',
    'blk.0.attn_v',
    'blk.0.ffn_gate',
  ] as const)('gives any elements of a tensor: %s', async (stored) => {
    const source = await ggufSource(folderOf(golden.file), name);
    const values = valuesOf(stored);
    const [, columns = 0] = source.get(`${names[stored]}.weight`)?.shape ?? [];
    const box = [
      { start: 1, stop: 7 },
      { start: 5, stop: columns - 3 },
    ];
    const inBox = values.filter((_, index) => {
      const [row, column] = [Math.floor(index / columns), index % columns];
      return row >= 1 && row < 7 && column >= 5 && column < columns - 3;
    });
    const found = await read(source, `${names[stored]}.weight`, {
      box,
      start: 3,
      stop: inBox.length - 1,
    });
    expect(found).toEqual(inBox.slice(3, -1));
  });

  it('makes its model, whose config is in its metadata', async () => {
    const model = await fromPretrained(folderOf(golden.file), { file: name });
    expect(model.configJson()).toMatchObject({
      model_type: 'llama',
      vocab_size: 8,
      num_key_value_heads: 2,
      rope_theta: 100000,
      tie_word_embeddings: true,
    });
    const { 'model.embed_tokens.weight': weight } = await model.stateDict();
    expect(floats(weight?.bytes ?? new Uint8Array(), 'f32')).toEqual(valuesOf('token_embd'));
  });

  it('makes its tokenizer, with its chat template', async () => {
    const { tokenizer, config } = await ggufTokenizer(folderOf(golden.file), name);
    expect(config).toEqual({ eos_token: '<|end|>', chat_template: '{{ messages[0].content }}' });
    const own = new Tokenizer(tokenizer, config);
    expect(own.encode('ab a<tool><|end|>c').ids).toEqual([4, 5, 7, 0, 6]);
    expect(own.decode([4, 5, 0], { skip_special_tokens: true })).toBe('ab a');
  });
});

describe('a GGUF file that is not as it should be', () => {
  async function refusal(file: Uint8Array<ArrayBuffer>): Promise<CheckpointError> {
    const error: unknown = await fromPretrained(folderOf(file), { file: name }).then(
      () => undefined,
      (thrown: unknown) => thrown,
    );
    if (error instanceof CheckpointError) return error;
    throw new TypeError('no CheckpointError', { cause: error });
  }

  /** The file with other bytes after the first occurrence of a text. */
  function changed(text: string, after: number, bytes: readonly number[]): Uint8Array<ArrayBuffer> {
    const file = golden.file.slice();
    file.set(bytes, Buffer.from(file.buffer).indexOf(text) + text.length + after);
    return file;
  }

  it('is an error wherever it is cut off', async () => {
    for (let length = 0; length < golden.file.byteLength; length += 499) {
      expect(await refusal(golden.file.slice(0, length)), `${length} bytes`).toBeInstanceOf(
        CheckpointError,
      );
    }
  });

  it.each([
    [
      'a type of quantisation that is not known',
      changed('token_embd.weight', 4 + 16, [10]),
      /"token_embd\.weight" of the type Q2_K.*such as one of Q8_0/,
    ],
    [
      'another architecture',
      changed('general.architecture', 12, [...Buffer.from('mamba')]),
      /the architecture "mamba"/,
    ],
    [
      'a key that the class does not compute',
      changed('llama.context_lengt', 0, [...Buffer.from('x')]),
      /the key "llama\.context_lengtx" = 16/,
    ],
    [
      'overlapping tensors',
      changed('output_norm.weight', 4 + 8 + 4, [0]),
      /overlaps the one before it/,
    ],
    [
      'a count beyond the file',
      changed('tokenizer.ggml.tokens', 8, [255, 255, 255, 255, 0]),
      /items at byte \d+ of/,
    ],
    [
      'a negative count',
      changed('tokenizer.ggml.tokens', 8, [255, 255, 255, 255, 255, 255, 255, 255]),
      /the count 18446744073709551615/,
    ],
  ])('is refused with what it has: %s', async (_, file, message) => {
    expect((await refusal(file)).message).toMatch(message);
  });

  it('may name a kind of tokenizer that is not known', async () => {
    const file = changed('tokenizer.ggml.pre', 12, [...Buffer.from('tekken')]);
    await expect(ggufTokenizer(folderOf(file), name)).rejects.toThrow(/texts cut as by "tekken"/);
  });
});
