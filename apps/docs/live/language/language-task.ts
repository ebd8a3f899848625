/** What the page asks its ranks to train: a small GPT on sums, or on a text. */
export type LanguageTask =
  | { readonly kind: 'sums'; readonly strategy: LanguageStrategy }
  | { readonly kind: 'text'; readonly strategy: LanguageStrategy; readonly text: Uint8Array };

export type LanguageStrategy = 'ddp' | 'zero-2' | 'fsdp';

/** The output of the model after some steps. */
export type LanguageLook =
  | {
      readonly kind: 'sums';
      /** The share of unseen sums that the model answers with all digits right. */
      readonly exact: number;
      /** Some of the answers. */
      readonly answers: readonly Answer[];
    }
  | { readonly kind: 'text'; readonly sample: string };

interface Answer {
  readonly question: string;
  readonly answer: string;
  readonly isRight: boolean;
}

/** The number of bytes of text that the model sees at once. */
export const CONTEXT = 48;
/** The number of windows of a step, for all ranks together. */
export const WINDOWS = 16;
/** The number of sums of a step, for all ranks together. */
export const SUMS = 128;
/**
 * The length of a question such as `57+68=`, which contains two numbers of two digits. The answer has three digits, the
 * last one first.
 */
export const QUESTION = 6;
export const DIGITS = 3;
/** The characters of sums. Their order defines their token ids. */
export const SUM_CHARACTERS = '0123456789+=';
