import type { Generator } from 'shardwise';

/** The tokens 0 to 9 are digits. */
const PLUS = 10;
const EQUALS = 11;
/** Ends an answer. Rows are padded with it, too. */
export const END = 12;
export const VOCABULARY = 13;
/** How many tokens prompts and answers have. */
export interface Lengths {
  /** The tokens of `abc+def=`. */
  readonly promptLength: number;
  /** The most tokens of an answer: the digits of a sum, and the end. */
  readonly answerLength: number;
}

/** The lengths of sums of two numbers with so many digits. */
export function lengthsOf(digitCount: number): Lengths {
  return { promptLength: 2 * digitCount + 2, answerLength: digitCount + 2 };
}

/** A sum of two numbers of the same number of digits. */
export interface Problem {
  readonly prompt: readonly number[];
  /** The digits of the sum, the units first, because a carry comes from the digit to the right, and the end. */
  readonly answer: readonly number[];
}

export function drawProblems(
  generator: Generator,
  count: number,
  digitCount: number,
): readonly Problem[] {
  const numbers = generator.randint(10 ** (digitCount - 1), 10 ** digitCount, 2 * count);
  return Array.from({ length: count }, (_, index) => {
    const [a = 0, b = 0] = numbers.slice(2 * index);
    return {
      prompt: [...digits(a), PLUS, ...digits(b), EQUALS],
      answer: [...digits(a + b).toReversed(), END],
    };
  });
}

/** 1 for the answer, with its end and nothing behind it, and 0 for any other one. */
export function reward({ answer }: Problem, completion: readonly number[]): number {
  const isRight =
    completion.length === answer.length && answer.every((token, at) => token === completion[at]);
  return Number(isRight);
}

/** A problem as it reads, with the units of the answer last. */
export function formatAnswer({ prompt }: Problem, completion: readonly number[]): string {
  const text = prompt.map((token) => '0123456789+='[token]).join('');
  const isWhole = completion.at(-1) === END;
  const answer = (isWhole ? completion.slice(0, -1) : completion).toReversed().join('');
  return `${text}${isWhole ? '' : '…'}${answer}`;
}

function digits(number: number): readonly number[] {
  return Array.from(String(number), Number);
}
