/** What a question asks for, and how an answer is read. */
export interface Question<T> {
  readonly text: string;
  /** The answers that are offered, if it is a choice. */
  readonly choices?: readonly string[];
  /** The answer of an empty line. */
  readonly initial: string;
  /** Returns undefined for an answer that is none. */
  readonly read: (answer: string) => T | undefined;
  /** What an answer must be, for one that is none. */
  readonly expected: string;
}

/** Asks a line of a person. */
export type Ask = (prompt: string) => Promise<string>;

/** Asks until there is an answer. Without `ask`, it takes the initial one. */
export async function answerTo<T>(question: Question<T>, ask: Ask | undefined): Promise<T> {
  const { text, choices, initial, read, expected } = question;
  const offered = choices === undefined ? '' : ` (${choices.join(', ')})`;
  const shown = initial === '' ? '' : ` [${initial}]`;
  let prompt = `${text}${offered}${shown}: `;
  for (;;) {
    const line = ask === undefined ? '' : (await ask(prompt)).trim();
    const answer = read(line === '' ? initial : line);
    if (answer !== undefined) return answer;
    prompt = `Please give ${expected}${shown}: `;
  }
}

export function countQuestion(
  text: string,
  initial: number,
  least = 1,
  most: number = Number.MAX_SAFE_INTEGER,
): Question<number> {
  return {
    text,
    initial: String(initial),
    read: (answer) => {
      const value = Number(answer);
      return Number.isSafeInteger(value) && value >= least && value <= most ? value : undefined;
    },
    expected:
      most === Number.MAX_SAFE_INTEGER
        ? `a whole number of ${least} or more`
        : `a whole number from ${least} to ${most}`,
  };
}

export function choiceQuestion<T extends string>(
  text: string,
  choices: readonly [T, ...T[]],
): Question<T> {
  return {
    text,
    choices,
    initial: choices[0],
    read: (answer) => choices.find((choice) => choice.toLowerCase() === answer.toLowerCase()),
    expected: `one of ${choices.join(', ')}`,
  };
}

export function yesNoQuestion(text: string, initial: boolean): Question<boolean> {
  return {
    text,
    choices: ['yes', 'no'],
    initial: initial ? 'yes' : 'no',
    read: (answer) =>
      /^y(?:es)?$/i.test(answer) ? true : /^no?$/i.test(answer) ? false : undefined,
    expected: 'yes or no',
  };
}

export function textQuestion(text: string, expected: string): Question<string> {
  return {
    text,
    initial: '',
    read: (answer) => (answer === '' ? undefined : answer),
    expected,
  };
}
