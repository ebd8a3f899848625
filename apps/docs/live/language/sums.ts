import { Generator } from 'shardwise/browser';
import { DIGITS, QUESTION, SUM_CHARACTERS } from './language-task.ts';

const PAIRS = 10_000;

/** Every eleventh pair is kept for asking. All digits are learned at all places: which pairs are kept depends on all four. */
function isAsked(pair: number): boolean {
  return (Math.floor(pair / 100) + 5 * (pair % 100)) % 11 === 3;
}

/** Pairs that the model learns from, drawn for a step; the same on all ranks. */
export function learnedPairs(step: number, count: number): readonly number[] {
  const drawn = Array.from(new Generator(step).rand(2 * count), (share) =>
    Math.floor(share * PAIRS),
  );
  return drawn.filter((pair) => !isAsked(pair)).slice(0, count);
}

/** Pairs that the model is asked and has never seen, from all over the table. */
export function askedPairs(count: number): readonly number[] {
  const all = Array.from({ length: PAIRS }, (_, pair) => pair).filter((pair) => isAsked(pair));
  return Array.from(
    { length: count },
    (_, index) => all[Math.floor((index * all.length) / count)] ?? 0,
  );
}

/** `57+68=521`: the digits of the sum come last one first, as one adds. */
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

/** A sum as people write it. */
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
