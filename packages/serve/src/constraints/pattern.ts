/** Code points from `first` to `last`, both included. */
export interface CharacterRange {
  readonly first: number;
  readonly last: number;
}

/** A part of a pattern that may contain itself. It is there before its pattern has been read. */
export interface Rule {
  readonly name: string;
  pattern: Pattern;
}

/** A set of texts, as a regular expression describes one, or with rules a grammar. */
export type Pattern =
  | { readonly kind: 'character'; readonly ranges: readonly CharacterRange[] }
  | { readonly kind: 'sequence'; readonly parts: readonly Pattern[] }
  | { readonly kind: 'choice'; readonly options: readonly Pattern[] }
  /** `most` may be Infinity. */
  | {
      readonly kind: 'repeat';
      readonly part: Pattern;
      readonly least: number;
      readonly most: number;
    }
  | { readonly kind: 'rule'; readonly rule: Rule };

const LAST_CODE_POINT = 0x10ffff;

export function character(...ranges: readonly (readonly [first: string, last: string])[]): Pattern {
  return {
    kind: 'character',
    ranges: ranges.map(([first, last]) => ({
      first: first.codePointAt(0) ?? 0,
      last: last.codePointAt(0) ?? 0,
    })),
  };
}

/** All characters but those in the ranges. */
export function except(ranges: readonly CharacterRange[]): Pattern {
  const others: CharacterRange[] = [];
  let first = 0;
  for (const range of ranges.toSorted((a, b) => a.first - b.first)) {
    if (range.first > first) others.push({ first, last: range.first - 1 });
    first = Math.max(first, range.last + 1);
  }
  if (first <= LAST_CODE_POINT) others.push({ first, last: LAST_CODE_POINT });
  return { kind: 'character', ranges: others };
}

export function literal(text: string): Pattern {
  return sequence(...Array.from(text, (each) => character([each, each])));
}

export function sequence(...parts: readonly Pattern[]): Pattern {
  return { kind: 'sequence', parts };
}

export function choice(options: readonly Pattern[]): Pattern {
  return { kind: 'choice', options };
}

export function repeat(
  part: Pattern,
  least: number,
  most: number = Number.POSITIVE_INFINITY,
): Pattern {
  return { kind: 'repeat', part, least, most };
}

export function optional(part: Pattern): Pattern {
  return repeat(part, 0, 1);
}
