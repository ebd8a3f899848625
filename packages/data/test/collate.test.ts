import { ConfigError, data, DataError, Generator, setRank } from '@shardwise/core';
import {
  causalLanguageModelCollate,
  completionSample,
  conversationSample,
  maskedLanguageModelCollate,
  packDocuments,
  padCollate,
  tensorsOf,
  Tokenizer,
  type TokenRows,
} from '@shardwise/data';
import { interpreter } from '@shardwise/testing';
import { array, assert, integer, property } from 'fast-check';
import { describe, expect, it } from 'vitest';
import { textOf } from './tokenizer-files.ts';

const ids = (...values: number[]): data.NDArray<'i32'> => data.ndArray(Int32Array.from(values));
const rowsOf = (batch: TokenRows, name: string): number[][] => {
  const array = batch[name];
  if (array === undefined) throw new Error(`no ${name}`);
  const values = Array.from(array.data, Number);
  const [rows = 0, length = 0] = array.shape;
  return Array.from({ length: rows }, (_, row) => values.slice(row * length, (row + 1) * length));
};
const valuesOf = (rows: TokenRows, name: string): number[] =>
  Array.from(rows[name]?.data ?? [], Number);

describe('padCollate', () => {
  it('pads texts to the longest one, and says in a mask what is padded', () => {
    const collate = padCollate({ padTokenId: 9 });
    const batch = collate([
      { inputIds: ids(1, 2, 3), labels: ids(1, 2, 3), tokenTypeIds: ids(0, 0, 1) },
      { inputIds: ids(4), labels: ids(4), tokenTypeIds: ids(1) },
    ]);
    expect(rowsOf(batch, 'inputIds')).toEqual([
      [1, 2, 3],
      [4, 9, 9],
    ]);
    expect(rowsOf(batch, 'labels')).toEqual([
      [1, 2, 3],
      [4, -100, -100],
    ]);
    expect(rowsOf(batch, 'tokenTypeIds')).toEqual([
      [0, 0, 1],
      [1, 0, 0],
    ]);
    expect(rowsOf(batch, 'attentionMask')).toEqual([
      [1, 1, 1],
      [1, 0, 0],
    ]);
  });

  it('pads on the left, to a length and to a multiple, and stacks labels of whole texts', () => {
    const left = padCollate({ padTokenId: 0, paddingSide: 'left', padToMultipleOf: 4 });
    const batch = left([{ inputIds: ids(5, 6), labels: data.ndArray(Int32Array.of(1), []) }]);
    expect(rowsOf(batch, 'inputIds')).toEqual([[0, 0, 5, 6]]);
    expect([valuesOf(batch, 'labels'), batch['labels']?.shape]).toEqual([[1], [1]]);
    const fixed = padCollate({ padTokenId: 0, length: 3, fill: { weight: 0.5 } });
    const weighted = fixed([{ inputIds: ids(5), weight: data.ndArray(Float32Array.of(2)) }]);
    expect(valuesOf(weighted, 'weight')).toEqual([2, 0.5, 0.5]);
  });

  it('is the collate function of a data loader', async () => {
    const texts = [ids(1), ids(2, 3), ids(4, 5, 6)].map((inputIds): TokenRows => ({ inputIds }));
    const dataset = { length: 3, get: (index: number): TokenRows => texts[index] ?? {} };
    const loader = new data.DataLoader({
      dataset,
      batchSize: 2,
      collate: padCollate({ padTokenId: 0 }),
    });
    const batches = [];
    for await (const batch of loader) batches.push(rowsOf(batch, 'inputIds'));
    expect(batches).toEqual([
      [
        [1, 0],
        [2, 3],
      ],
      [[4, 5, 6]],
    ]);
  });

  it('refuses samples that do not go together, and names them', () => {
    const collate = padCollate({ padTokenId: 0, length: 2 });
    const one = { inputIds: ids(1), labels: ids(1) };
    expect(() => collate([one, { inputIds: ids(1) }], [7, 8])).toThrow(/item 8 of the dataset/);
    expect(() => collate([{ inputIds: ids(1) }, one])).toThrow(DataError);
    expect(() => collate([{ inputIds: ids(1), labels: ids(1, 2) }])).toThrow(/beside 1 tokens/);
    expect(() => collate([{ inputIds: ids(1, 2, 3) }])).toThrow(/3 tokens/);
    expect(() => collate([{ inputIds: ids(1), score: ids(1) }])).toThrow(/fill: \{ score: 0 \}/);
    expect(() => collate([{ labels: ids(1) }])).toThrow(/no inputIds/);
  });
});

describe('maskedLanguageModelCollate', () => {
  const tokenizer = {
    maskTokenId: 4,
    padTokenId: 0,
    specialIds: new Set([0, 1, 2, 3, 4]),
    vocabularySize: 1000,
  };
  const text = {
    inputIds: Int32Array.from({ length: 1000 }, (_, i) => (i % 10 === 0 ? 2 : 5 + (i % 995))),
  };
  const samples = Array.from({ length: 200 }, () => ({ inputIds: data.ndArray(text.inputIds) }));
  const collate = maskedLanguageModelCollate({ tokenizer, generator: new Generator(1) });
  const batch = collate(samples);
  const [inputs, labels] = [valuesOf(batch, 'inputIds'), valuesOf(batch, 'labels')];
  const original = samples.flatMap(({ inputIds }) => [...inputIds.data]);
  const chosen = labels.flatMap((label, at) => (label === -100 ? [] : [at]));

  /** Whether a count of n draws of probability p lies within five standard deviations. */
  const isShare = (count: number, n: number, p: number): boolean =>
    Math.abs(count - n * p) < 5 * Math.sqrt(n * p * (1 - p));

  it('chooses 15 % of the tokens that are not special, and labels these alone', () => {
    const ordinary = original.filter((id) => !tokenizer.specialIds.has(id)).length;
    expect(isShare(chosen.length, ordinary, 0.15)).toBe(true);
    expect(chosen.every((at) => labels[at] === original[at])).toBe(true);
    expect(chosen.some((at) => tokenizer.specialIds.has(original[at] ?? 0))).toBe(false);
    expect(inputs.every((id, at) => labels[at] !== -100 || id === original[at])).toBe(true);
  });

  it('masks 80 % of them, replaces 10 % by tokens that are not special, and keeps 10 %', () => {
    const masked = chosen.filter((at) => inputs[at] === 4).length;
    const kept = chosen.filter((at) => inputs[at] === original[at]).length;
    const replaced = chosen.filter((at) => inputs[at] !== 4 && inputs[at] !== original[at]);
    expect(isShare(masked, chosen.length, 0.8)).toBe(true);
    // One in 995 tokens at random is the token itself.
    expect(isShare(kept, chosen.length, 0.1 + 0.1 / 995)).toBe(true);
    expect(isShare(replaced.length, chosen.length, 0.1 - 0.1 / 995)).toBe(true);
    expect(replaced.some((at) => tokenizer.specialIds.has(inputs[at] ?? 0))).toBe(false);
  });

  it('draws the same for the same state of the generator, and something else in the next batch', () => {
    const generator = new Generator(3);
    const again = maskedLanguageModelCollate({ tokenizer, generator });
    const state = generator.getState();
    const first = valuesOf(again(samples.slice(0, 2)), 'inputIds');
    expect(valuesOf(again(samples.slice(0, 2)), 'inputIds')).not.toEqual(first);
    generator.setState(state);
    expect(valuesOf(again(samples.slice(0, 2)), 'inputIds')).toEqual(first);
  });

  it('needs a mask token and a token for padding', () => {
    const generator = new Generator(1);
    const without =
      (part: object): (() => unknown) =>
      () =>
        maskedLanguageModelCollate({ tokenizer: { ...tokenizer, ...part }, generator });
    expect(without({ maskTokenId: undefined })).toThrow(/without a mask token/);
    expect(without({ padTokenId: undefined })).toThrow(/without a pad token/);
  });
});

describe('causalLanguageModelCollate', () => {
  it('labels tokens with themselves, and padding with -100, and keeps labels that samples have', () => {
    const collate = causalLanguageModelCollate({ padTokenId: 0 });
    const batch = collate([{ inputIds: ids(1, 2) }, { inputIds: ids(3) }]);
    expect(rowsOf(batch, 'labels')).toEqual([
      [1, 2],
      [3, -100],
    ]);
    const own = collate([{ inputIds: ids(1, 2), labels: ids(-100, 2) }]);
    expect(rowsOf(own, 'labels')).toEqual([[-100, 2]]);
  });
});

describe('samples of instructions', () => {
  const chatTemplate =
    "{% for message in messages %}{{ '<|begin_of_text|>' + message['role'] + '\n' + message['content'] + '<|eot_id|>' }}{% endfor %}" +
    "{% if add_generation_prompt %}{{ '<|begin_of_text|>assistant\n' }}{% endif %}";
  const json: unknown = JSON.parse(textOf('split-bytes'));
  const tokenizer = Tokenizer.fromJson(json, { chatTemplate });
  const messages = [
    { role: 'user', content: 'Who?' },
    { role: 'assistant', content: 'The ranks.' },
    { role: 'user', content: 'All?' },
    { role: 'assistant', content: 'Yes.' },
    { role: 'user', content: 'Good.' },
  ];
  const learned = (rows: TokenRows): string =>
    tokenizer.decode(valuesOf(rows, 'labels').filter((id) => id !== -100));

  it('learn the answers of a conversation, with what ends them, and nothing else', () => {
    const rows = conversationSample(tokenizer, messages);
    expect(learned(rows)).toBe('The ranks.<|eot_id|>Yes.<|eot_id|>');
    expect(tokenizer.decode(valuesOf(rows, 'inputIds'))).toBe(
      tokenizer.applyChatTemplate(messages),
    );
    const labels = valuesOf(rows, 'labels');
    expect(
      valuesOf(rows, 'inputIds').filter((id, at) => labels[at] !== -100 && labels[at] !== id),
    ).toEqual([]);
  });

  it('refuse conversations without an answer, and templates that rewrite what was said', () => {
    expect(() => conversationSample(tokenizer, messages.slice(0, 1))).toThrow(DataError);
    const rewriting = Tokenizer.fromJson(json, {
      chatTemplate: '{{ messages | length }}{{ messages[0].content }}',
    });
    expect(() => conversationSample(rewriting, messages)).toThrow(/writes earlier messages/);
  });

  it('learn the completion of a prompt and the end of the text', () => {
    const rows = completionSample(
      tokenizer,
      { prompt: '2 + 2 =', completion: ' 4' },
      { eosTokenId: 1 },
    );
    expect(learned(rows)).toBe(' 4<|eot_id|>');
    expect(tokenizer.decode(valuesOf(rows, 'inputIds'))).toBe(
      '<|begin_of_text|>2 + 2 = 4<|eot_id|>',
    );
  });
});

describe('packDocuments', () => {
  const documentsOf = (lengths: readonly number[]): TokenRows[] =>
    lengths.map((length, d) => ({
      inputIds: ids(...Array.from({ length }, (_, i) => 100 * (d + 1) + i)),
    }));

  it('cuts documents where rows are full, numbers them and begins positions anew', () => {
    const [first, second, ...rest] = packDocuments(documentsOf([3, 4]), {
      contextLength: 5,
      padTokenId: 0,
    });
    expect(rest).toEqual([]);
    expect([first, second].map((row) => valuesOf(row ?? {}, 'inputIds'))).toEqual([
      [100, 101, 102, 200, 201],
      [202, 203, 0, 0, 0],
    ]);
    expect([first, second].map((row) => valuesOf(row ?? {}, 'documents'))).toEqual([
      [0, 0, 0, 1, 1],
      [0, 0, 1, 1, 1],
    ]);
    expect([first, second].map((row) => valuesOf(row ?? {}, 'positionIds'))).toEqual([
      [0, 1, 2, 0, 1],
      [0, 1, 0, 1, 2],
    ]);
    expect(valuesOf(second ?? {}, 'labels')).toEqual([202, 203, -100, -100, -100]);
  });

  const lengths = array(integer({ min: 0, max: 9 }), { maxLength: 30 });
  const packedDocuments = (samples: readonly TokenRows[], cut: boolean): number[][] =>
    [...packDocuments(samples, { contextLength: 9, cut, padTokenId: 0 })].flatMap((row) => {
      const [learned, documents] = [valuesOf(row, 'labels'), valuesOf(row, 'documents')];
      return [...new Set(documents)].map((each) =>
        learned.filter((id, at) => documents[at] === each && id !== -100),
      );
    });

  it('keeps every token once and in order where documents are cut, for any lengths', () => {
    const holds = property(lengths, (each) => {
      const samples = documentsOf(each);
      const wanted = samples.flatMap((sample) => valuesOf(sample, 'inputIds'));
      expect(packedDocuments(samples, true).flat()).toEqual(wanted);
    });
    assert(holds, { numRuns: 100 });
  });

  it('keeps whole documents whole, each once, for any lengths', () => {
    const holds = property(lengths, (each) => {
      const samples = documentsOf(each);
      const sorted = (documents: readonly number[][]): string[] =>
        documents
          .filter(({ length }) => length > 0)
          .map(String)
          .toSorted();
      const wanted = samples.map((sample) => valuesOf(sample, 'inputIds'));
      expect(sorted(packedDocuments(samples, false))).toEqual(sorted(wanted));
    });
    assert(holds, { numRuns: 100 });
  });

  it('fills rows with whole documents: 5 + 3, 4 + 4 and 6 + 2 fit into three rows of 8', () => {
    const rows = [
      ...packDocuments(documentsOf([3, 4, 2, 6, 4, 5]), {
        contextLength: 8,
        cut: false,
        padTokenId: 0,
      }),
    ];
    expect(rows.map((row) => valuesOf(row, 'inputIds').includes(0))).toEqual([false, false, false]);
  });

  it('keeps labels, and refuses others than tokens and whole documents that are too long', () => {
    const options = { contextLength: 4, padTokenId: 0 };
    const [row] = packDocuments([{ inputIds: ids(1, 2), labels: ids(-100, 2) }], options);
    expect(valuesOf(row ?? {}, 'labels')).toEqual([-100, 2, -100, -100]);
    expect(() => [...packDocuments([{ inputIds: ids(1, 2), labels: ids(1) }], options)]).toThrow(
      ConfigError,
    );
    expect(() => [...packDocuments(documentsOf([5]), { ...options, cut: false })]).toThrow(
      /5 tokens/,
    );
  });
});

describe('tensorsOf', () => {
  const batch = { inputIds: ids(1, 2), labels: ids(3, 4), documents: ids(0, 0) };

  it('makes tensors of the arrays of a batch', async () => {
    setRank({ device: interpreter() });
    const { inputIds, ...call } = tensorsOf(batch, 'inputIds', 'labels', 'documents');
    expect([...(await inputIds.data())].map(Number)).toEqual([1, 2]);
    expect(Object.keys(call)).toEqual(['labels', 'documents']);
    expect(call.labels.dtype).toBe('i32');
  });

  it('refuses a name that is not there, and an array that nobody asked for', () => {
    expect(() => tensorsOf({ inputIds: ids(1) }, 'inputIds', 'labels')).toThrow(
      /a batch with no labels/,
    );
    expect(() => tensorsOf(batch, 'inputIds', 'labels')).toThrow(
      /with documents, which are not named.*tensorsOf\(batch, 'inputIds', 'labels', 'documents'\)/,
    );
    expect(() => tensorsOf(batch, 'inputIds')).toThrow(DataError);
  });
});
