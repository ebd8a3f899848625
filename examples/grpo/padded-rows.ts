import { fromData, type Tensor } from 'shardwise';
import { END, type Lengths } from './addition.ts';

/** Prompts with their answers, as rows of one length. Letters: B rows, P tokens of a prompt, A tokens of an answer. */
export interface PaddedRows {
  /** What the model reads: all tokens but the last one of each row. Shape: i32 [B, P + A - 1]. */
  readonly inputIds: Tensor;
  /** The tokens of the answers. Shape: i32 [B, A]. */
  readonly answers: Tensor;
  /** 1 for tokens of answers, and 0 for what stands behind them. Shape: f32 [B, A]. */
  readonly mask: Tensor;
}

/** Nothing reads what stands behind a row, because a token sees only those before it. */
export function padRows(
  rows: readonly { readonly prompt: readonly number[]; readonly answer: readonly number[] }[],
  { promptLength, answerLength }: Lengths,
): PaddedRows {
  const length = promptLength + answerLength - 1;
  const inputIds = new Int32Array(rows.length * length).fill(END);
  const answers = new Int32Array(rows.length * answerLength).fill(END);
  for (const [row, { prompt, answer }] of rows.entries()) {
    inputIds.set([...prompt, ...answer].slice(0, length), row * length);
    answers.set(answer, row * answerLength);
  }
  return {
    inputIds: fromData(inputIds, [rows.length, length], 'i32'),
    answers: fromData(answers, [rows.length, answerLength], 'i32'),
    mask: padAnswers(
      rows.map(({ answer }) => answer.map(() => 1)),
      answerLength,
    ),
  };
}

/** A number for each token of answers, and 0 behind them. Shape: -> f32 [B, A]. */
export function padAnswers(rows: readonly (readonly number[])[], answerLength: number): Tensor {
  const numbers = new Float32Array(rows.length * answerLength);
  for (const [row, own] of rows.entries()) numbers.set(own, row * answerLength);
  return fromData(numbers, [rows.length, answerLength], 'f32');
}
