import { createHash } from 'node:crypto';
import { readJsonLines, textColumns } from '@shardwise/data';
import { fileBytes } from '@shardwise/data/node';

/** What a user writes, and the answer that a model is to give. */
export interface Instruction {
  readonly instruction: string;
  readonly output: string;
}

export interface Instructions {
  readonly train: readonly Instruction[];
  /** Instructions that training does not see. */
  readonly heldOut: readonly Instruction[];
}

/** Of so many instructions, one is held out. */
const PARTS = 10;

const tasks: readonly ((word: string) => Instruction)[] = [
  (word) => ({ instruction: `Write in capitals: ${word}`, output: word.toUpperCase() }),
  (word) => ({ instruction: `Spell: ${word}`, output: word.split('').join('-') }),
  (word) => ({ instruction: `Write twice: ${word}`, output: `${word} ${word}` }),
];

/** Tasks about the words of a text. A word is either for training or held out, with all its tasks. */
export function tasksAboutWords(text: string): Instructions {
  const words = [...new Set(text.toLowerCase().match(/\b[a-z]{3,8}\b/g) ?? [])].toSorted();
  const isHeldOut = (word: string): boolean =>
    (createHash('sha256').update(word).digest()[0] ?? 0) % PARTS === 0;
  const about = (chosen: readonly string[]): Instruction[] =>
    chosen.flatMap((word) => tasks.map((task) => task(word)));
  return {
    train: about(words.filter((word) => !isHeldOut(word))),
    heldOut: about(words.filter(isHeldOut)),
  };
}

/**
 * Reads a file of JSON lines, `{"instruction": "…", "output": "…"}`. Every tenth line is held out. Throws a DataError that
 * names the line.
 */
export async function readInstructions(path: string): Promise<Instructions> {
  const lines = await readJsonLines(await fileBytes(path));
  const rows = await textColumns(lines, 'instruction', 'output');
  return {
    train: rows.filter((_, index) => index % PARTS !== PARTS - 1),
    heldOut: rows.filter((_, index) => index % PARTS === PARTS - 1),
  };
}
