import { readFileSync } from 'node:fs';
import { ConfigError, DataError } from '@shardwise/core';
import {
  padCollate,
  predictedAnswer,
  questionAnsweringSamples,
  type QuestionAnsweringSample,
  Tokenizer,
} from '@shardwise/data';
import { describe, expect, it } from 'vitest';
import { z } from 'zod';
import { textOf } from './tokenizer-files.ts';

const ids = z.array(z.int());
const { context, cases } = z
  .object({
    context: z.string(),
    cases: z.array(
      z.object({
        tokenizer: z.enum(['word-piece', 'split-bytes']),
        question: z.string(),
        answer: z.string().nullable(),
        start: z.int().nullable(),
        maxLength: z.int(),
        stride: z.int(),
        samples: z.array(
          z.object({
            inputIds: ids,
            tokenTypeIds: ids,
            offsets: z.array(z.tuple([z.int(), z.int()]).nullable()),
            positions: z.tuple([z.int(), z.int()]),
          }),
        ),
      }),
    ),
  })
  .parse(
    JSON.parse(readFileSync(new URL('golden/question-answering.json', import.meta.url), 'utf8')),
  );
const tokenizers = {
  'word-piece': Tokenizer.fromJson(JSON.parse(textOf('word-piece'))),
  'split-bytes': Tokenizer.fromJson(JSON.parse(textOf('split-bytes'))),
} as const;
const tokenizer = tokenizers['word-piece'];

/** Logits that are 1 at one token and 0 elsewhere. */
function peak(length: number, at: number): Float32Array {
  return new Float32Array(length).fill(1, at, at + 1);
}

function positionsOf({ rows }: QuestionAnsweringSample): readonly number[] {
  return ['startPositions', 'endPositions'].map((name) => Number(rows[name]?.data[0]));
}

describe.each(cases)('"$question" with $tokenizer', (golden) => {
  const { question, answer: text, start, maxLength, stride } = golden;
  const answer = text === null || start === null ? null : { text, start };
  const samples = questionAnsweringSamples(
    tokenizers[golden.tokenizer],
    { question, context, answer },
    { maxLength, stride },
  );

  it('has the samples that transformers makes', () => {
    const found = samples.map((sample) => ({
      inputIds: [...(sample.rows['inputIds']?.data ?? [])],
      tokenTypeIds: [...(sample.rows['tokenTypeIds']?.data ?? [])],
      offsets: sample.offsets.map((each) => (each === undefined ? null : [...each])),
      positions: positionsOf(sample),
    }));
    expect(found).toEqual(golden.samples);
  });

  it('has its answer in all samples that mark one, and in at least one', () => {
    const marked = samples.filter((sample) => positionsOf(sample).join() !== '0,0');
    expect(marked.length > 0).toBe(answer !== null);
    for (const sample of marked) {
      const [first = 0, last = 0] = positionsOf(sample);
      const { length } = sample.offsets;
      const found = predictedAnswer(context, [
        { sample, startLogits: peak(length, first), endLogits: peak(length, last) },
      ]);
      expect(found?.text.trim()).toBe(answer?.text);
      expect(found?.score).toBe(2);
    }
  });
});

describe('samples of questions', () => {
  const question = 'Who?';
  const smiling = 'Equal are 😀 and all.';

  it('together have each token of the context, and overlap by the stride', () => {
    const whole = questionAnsweringSamples(tokenizer, { question, context }, {});
    expect(whole.length).toBe(1);
    const places = whole[0]?.offsets.filter((each) => each !== undefined) ?? [];
    for (const stride of [0, 1, 7]) {
      const options = { maxLength: 20, stride };
      const parts = questionAnsweringSamples(tokenizer, { question, context }, options).map(
        ({ offsets }) => offsets.filter((each) => each !== undefined),
      );
      expect(parts.flatMap((part, i) => (i === 0 ? part : part.slice(stride)))).toEqual(places);
    }
  });

  it('have positions only if an answer, or that there is none, is given', () => {
    const [sample] = questionAnsweringSamples(tokenizer, { question, context });
    expect(Object.keys(sample?.rows ?? {})).toEqual(['inputIds', 'tokenTypeIds']);
    const without = questionAnsweringSamples(tokenizer, { question, context, answer: null });
    expect(without.map(positionsOf)).toEqual([[0, 0]]);
  });

  it('mark all tokens of a character that has several', () => {
    const start = smiling.indexOf('😀');
    const answer = { text: '😀', start };
    const [sample] = questionAnsweringSamples(tokenizers['split-bytes'], {
      question,
      context: smiling,
      answer,
    });
    if (sample === undefined) throw new RangeError('no sample');
    const [first = 0, last = 0] = positionsOf(sample);
    expect(last).toBeGreaterThanOrEqual(first);
    const { length } = sample.offsets;
    const scored = { sample, startLogits: peak(length, first), endLogits: peak(length, last) };
    expect(predictedAnswer(smiling, [scored])?.text.trim()).toBe('😀');
  });

  it('become batches, with one position for each row', () => {
    const answer = { text: 'All', start: 0 };
    const options = { maxLength: 24, stride: 4 };
    const samples = questionAnsweringSamples(tokenizer, { question, context, answer }, options);
    const batch = padCollate({ padTokenId: 0 })(samples.map(({ rows }) => rows));
    expect(batch['startPositions']?.shape).toEqual([samples.length]);
    expect(batch['inputIds']?.shape).toEqual([samples.length, 24]);
  });

  it('are refused where the answer is not, and without room for the context', () => {
    const samplesOf = (text: string, start: number, text0 = context): unknown =>
      questionAnsweringSamples(tokenizer, {
        question,
        context: text0,
        answer: { text, start },
      });
    expect(() => samplesOf('human', 5)).toThrow(/'human' at 5.*'uman '.*UTF-16/s);
    expect(() => samplesOf('human', 5)).toThrow(DataError);
    // Python counts the emoji as one character.
    expect(() => samplesOf('and', smiling.indexOf('and') - 1, smiling)).toThrow(DataError);
    expect(() => samplesOf(' ', 3)).toThrow('no token that has any of it');
    const options = { maxLength: 20, stride: 18 };
    expect(() => questionAnsweringSamples(tokenizer, { question, context }, options)).toThrow(
      ConfigError,
    );
  });
});

describe('a predicted answer', () => {
  const [sample] = questionAnsweringSamples(tokenizer, { question: 'Who?', context: 'all are' });
  if (sample === undefined) throw new RangeError('no sample');
  const { length } = sample.offsets;
  const [all = 0, are = 0] = sample.offsets.flatMap((each, i) => (each === undefined ? [] : [i]));

  it('never ends before it begins, is of the context, and has at most the tokens that are asked for', () => {
    const crossed = { sample, startLogits: peak(length, are), endLogits: peak(length, all) };
    expect(predictedAnswer('all are', [crossed])?.score).toBe(1);
    const outside = { sample, startLogits: peak(length, 1), endLogits: peak(length, 1) };
    expect(predictedAnswer('all are', [outside])?.score).toBe(0);
    const both = { sample, startLogits: peak(length, all), endLogits: peak(length, are) };
    expect(predictedAnswer('all are', [both])?.text).toBe('all are');
    expect(predictedAnswer('all are', [both], { maxAnswerTokens: 1 })?.score).toBe(1);
  });

  it('is the best of all samples', () => {
    const scores = [1, 3, 2].map((by) => {
      const startLogits = peak(length, all).map((each) => each * by);
      return { sample, startLogits, endLogits: peak(length, all) };
    });
    expect(predictedAnswer('all are', scores)).toEqual({ text: 'all', start: 0, score: 4 });
  });

  it('is none where [CLS] is likelier by more than the threshold, if one is given', () => {
    const scored = { sample, startLogits: peak(length, 0), endLogits: peak(length, 0) };
    expect(predictedAnswer('all are', [scored])?.score).toBe(0);
    expect(predictedAnswer('all are', [scored], { nullThreshold: 1.9 })).toBeNull();
    expect(predictedAnswer('all are', [scored], { nullThreshold: 2 })?.score).toBe(0);
    const other = { sample, startLogits: peak(length, all), endLogits: peak(length, all) };
    expect(predictedAnswer('all are', [scored, other], { nullThreshold: 0 })?.score).toBe(2);
  });

  it('is refused for logits that are NaN or too few', () => {
    const startLogits = new Float32Array(length).fill(NaN);
    const endLogits = new Float32Array(length);
    expect(() => predictedAnswer('all are', [{ sample, startLogits, endLogits }])).toThrow('NaN');
    const few = endLogits.subarray(1);
    expect(() => predictedAnswer('all are', [{ sample, startLogits: few, endLogits }])).toThrow(
      DataError,
    );
  });
});
