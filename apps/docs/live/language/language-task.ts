/** What the page asks its ranks to train: a small GPT on sums, or on a text. */
export type LanguageTask =
  | { readonly kind: 'sums'; readonly strategy: LanguageStrategy }
  | { readonly kind: 'text'; readonly strategy: LanguageStrategy; readonly text: Uint8Array };

export type LanguageStrategy = 'ddp' | 'zero-2' | 'fsdp';

/** What the model answers after some steps. */
export type LanguageLook =
  | {
      readonly kind: 'sums';
      /** The share of sums that the model has not seen and has right in all digits. */
      readonly exact: number;
      /** Some of them. */
      readonly answers: readonly Answer[];
    }
  | { readonly kind: 'text'; readonly sample: string };

export interface Answer {
  readonly question: string;
  readonly answer: string;
  readonly isRight: boolean;
}

/** Bytes of text that the model sees at once. */
export const CONTEXT = 48;
/** Windows of a step, of all ranks together. */
export const WINDOWS = 16;
/** Sums of a step, of all ranks together. */
export const SUMS = 128;
/** `57+68=`: two numbers of two digits. The answer is three digits, the last one first. */
export const QUESTION = 6;
export const DIGITS = 3;
/** Characters of sums, which are numbered in this order. */
export const SUM_CHARACTERS = '0123456789+=';
