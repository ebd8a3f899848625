import { trimEnd } from './normalizers.ts';
import type { AddedTokenConfig } from './file-types.ts';

/** A stretch of a text, from one UTF-16 unit to another: an added token, or text in which tokens are still to be found. */
export type Stretch =
  | { readonly id: number; readonly start: number; readonly end: number }
  | {
      readonly text: string;
      readonly start: number;
      readonly end: number;
      readonly isFirst: boolean;
    };

type Entry = readonly [content: string, token: AddedTokenConfig];

/**
 * Finds added tokens in a text: at each place the longest, from left to right. A token may take the blanks around it
 * (`lstrip`, `rstrip`), or be one only if no letter or digit touches it (`single_word`).
 */
export class AddedTokens {
  readonly #tokens: ReadonlyMap<string, AddedTokenConfig>;
  readonly #pattern: RegExp | undefined;

  /** What is searched for may be the normalized form of a token. */
  constructor(entries: readonly Entry[]) {
    this.#tokens = new Map(entries);
    const longestFirst = [...this.#tokens.keys()]
      .filter((content) => content !== '')
      .toSorted((a, b) => b.length - a.length);
    if (longestFirst.length > 0) {
      this.#pattern = new RegExp(longestFirst.map((each) => RegExp.escape(each)).join('|'), 'gu');
    }
  }

  /** Divides a text. `isFirst` says whether the text is the beginning of what is encoded. */
  split(text: string, isFirst: boolean): readonly Stretch[] {
    if (this.#pattern === undefined) {
      return text === '' ? [] : [{ text, start: 0, end: text.length, isFirst }];
    }
    const stretches: Stretch[] = [];
    let end = 0;
    const addText = (stretch: string, start: number): void => {
      if (stretch === '') return;
      const place = { start, end: start + stretch.length };
      stretches.push({ text: stretch, ...place, isFirst: isFirst && start === 0 });
    };
    for (const match of text.matchAll(this.#pattern)) {
      const token = this.#tokens.get(match[0]);
      // The blanks after the last token may have been the beginning of this one.
      if (token === undefined || match.index < end) continue;
      const after = match.index + match[0].length;
      if (token.single_word && (endsInWord(text, match.index) || beginsWithWord(text, after))) {
        continue;
      }
      const all = text.slice(end, match.index);
      const before = token.lstrip ? trimEnd(all) : all;
      addText(before, end);
      const start = end + before.length;
      end = after;
      if (token.rstrip) {
        while (end < text.length && /\p{White_Space}/u.test(text[end] ?? '')) end += 1;
      }
      stretches.push({ id: token.id, start, end });
    }
    addText(text.slice(end), end);
    return stretches;
  }
}

const WORD = '[\\p{Alphabetic}\\p{M}\\p{Nd}\\p{Pc}]';
const wordAtEnd = new RegExp(`${WORD}$`, 'u');
const wordAtStart = new RegExp(`^${WORD}`, 'u');

function endsInWord(text: string, end: number): boolean {
  return wordAtEnd.test(text.slice(Math.max(0, end - 2), end));
}

function beginsWithWord(text: string, start: number): boolean {
  return wordAtStart.test(text.slice(start, start + 2));
}
