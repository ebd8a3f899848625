import { Generator } from 'shardwise/browser';
import { DIGITS, QUESTION, SUM_CHARACTERS } from './language-task.ts';

const PAIRS = 10_000;

/**
 * Whether a pair is kept for questions, which is every eleventh pair. The choice depends on all four digits, so that
 * the model learns every digit at every place.
 */
function isAsked(pair: number): boolean {
  return (Math.floor(pair / 100) + 5 * (pair % 100)) % 11 === 3;
}

/** Draws the pairs from which the model learns in a step. They are the same on all ranks. */
export function learnedPairs(step: number, count: number): readonly number[] {
  const drawn = Array.from(new Generator(step).rand(2 * count), (share) =>
    Math.floor(share * PAIRS),
  );
  return drawn.filter((pair) => !isAsked(pair)).slice(0, count);
}

/** Returns pairs from all over the table that the model has never seen. */
export function askedPairs(count: number): readonly number[] {
  const all = Array.from({ length: PAIRS }, (_, pair) => pair).filter((pair) => isAsked(pair));
  return Array.from(
    { length: count },
    (_, index) => all[Math.floor((index * all.length) / count)] ?? 0,
  );
}

/** Writes a sum, such as `57+68=521`. The last digit of the sum comes first, as in adding by hand. */
export function textOf(pair: number): string {
  const [a, b] = [Math.floor(pair / 100), pair % 100];
  const two = (value: number): string => String(value).padStart(2, '0');
  const sum = String(a + b)
    .padStart(DIGITS, '0')
    .split('')
    .toReversed()
    .join('');
  return `${two(a)}+${two(b)}=${sum}`;
}

export function idsOf(text: string): readonly number[] {
  return text.split('').map((character) => SUM_CHARACTERS.indexOf(character));
}

/** Writes the digits of an answer as a number. */
export function answerText(ids: readonly number[]): string {
  return String(
    Number(
      ids
        .map((id) => SUM_CHARACTERS[id])
        .toReversed()
        .join(''),
    ),
  );
}

export const questionOf = (text: string): string => text.slice(0, QUESTION);
