import type { Change } from './aligned-text.ts';
import { laterMarks } from './unicode-8.ts';

/**
 * A text in a decomposed form, character by character, with what becomes of each: the first part of a character takes its
 * place, and the others are put in. Marks that are put into another order keep what they are.
 * Marks that the Rust library does not know stay where they are.
 */
export function decomposed(text: string, form: 'NFD' | 'NFKD'): readonly Change[] {
  const parts = text.split(laterMarks);
  if (parts.length === 1) return decomposedPart(text, form);
  const marks = Array.from(text).filter((character) => laterMarks.test(character));
  return parts.flatMap((part, index) => {
    const mark = marks[index];
    const changes = decomposedPart(part, form);
    return mark === undefined ? changes : [...changes, [mark, 0] as const];
  });
}

function decomposedPart(text: string, form: 'NFD' | 'NFKD'): readonly Change[] {
  // The k-th part of a kind is the k-th one in the result, because equal marks keep their order.
  const changes = new Map<string, number[]>();
  for (const character of text) {
    let index = 0;
    for (const part of character.normalize(form)) {
      const known = changes.get(part) ?? [];
      known.push(index === 0 ? 0 : 1);
      changes.set(part, known);
      index += 1;
    }
  }
  const taken = new Map<string, number>();
  return Array.from(text.normalize(form), (character): Change => {
    const at = taken.get(character) ?? 0;
    taken.set(character, at + 1);
    return [character, changes.get(character)?.[at] ?? 0];
  });
}

/**
 * A text in a composed form, with what becomes of each character: one that is composed of several takes the place of all.
 */
export function composed(text: string, form: 'NFC' | 'NFKC'): readonly Change[] {
  const result: Change[] = [];
  /** The place in `result` of the last character that marks can join. */
  let base: number | undefined;
  /** The last mark that did not join. */
  let mark: string | undefined;
  for (const [character, change] of decomposed(text, form === 'NFC' ? 'NFD' : 'NFKD')) {
    const isMark = isOrdered(character) && !laterMarks.test(character);
    const before = base === undefined ? undefined : result[base];
    const isBlocked = mark !== undefined && (!isMark || isSameClass(mark, character));
    const joined = before === undefined || isBlocked ? undefined : joinedOf(before[0], character);
    if (base !== undefined && before !== undefined && joined !== undefined) {
      result[base] = [joined, before[1] + change - 1];
      continue;
    }
    result.push([character, change]);
    if (isMark) mark = base === undefined ? undefined : character;
    else [base, mark] = [result.length - 1, undefined];
  }
  return result;
}

/** The one character that two are composed to. */
function joinedOf(first: string, second: string): string | undefined {
  const joined = (first + second).normalize('NFC');
  return Array.from(joined).length === 1 ? joined : undefined;
}

/** A mark of the highest class, before which every other mark is put. */
const IOTA_BELOW = '\u0345';

/** Whether a character is a mark that has a place in the order of marks (a combining class that is not 0). */
function isOrdered(character: string): boolean {
  const after = IOTA_BELOW + character;
  return character === IOTA_BELOW || after.normalize('NFD') !== after;
}

/** Whether two marks, which are in order, have the same class: then they stay as they are in the other order. */
function isSameClass(first: string, second: string): boolean {
  return (second + first).normalize('NFD') === second + first;
}
