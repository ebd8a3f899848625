import type { Bench } from '../bench.ts';
import { chosenOf } from '../chosen.ts';
import { load } from '../load/load.ts';
import { roundsFlag, roundsOf } from '../rounds.ts';
import { generation } from './generation.ts';
import { lora } from './lora.ts';
import type { Part } from './measure.ts';
import { trainingPart } from './training.ts';

const ROUNDS = 3;

const parts = {
  bert: trainingPart('training of BERT-base as a masked language model, 16 rows of 128 tokens', {
    model: 'bert',
    rows: 16,
    length: 128,
  }),
  gpt2: trainingPart('training of GPT-2 with 124 million parameters, 4 rows of 256 tokens', {
    model: 'gpt2',
    rows: 4,
    length: 256,
  }),
  generation,
  lora,
  load: { about: load.about, run: () => load.run({}) },
} satisfies Readonly<Record<string, Part>>;
type PartName = keyof typeof parts;

const names = Object.keys(parts).filter((name): name is PartName => name in parts);

/** Compares models with those of Python's transformers: the same weights, batches, threads, and rounds that alternate. */
export const models: Bench = {
  about: `BERT, GPT-2 and a Llama of 1.1 billion parameters beside transformers: ${names.join(', ')}`,
  flags: { ...roundsFlag, only: { type: 'string' } },
  run: async (values) => {
    const rounds = roundsOf(values, ROUNDS);
    const rows: (readonly [string, string])[] = [];
    const record: Record<string, unknown> = { rounds };
    for (const name of chosenOf(values, 'only', names)) {
      const result = await parts[name].run({ rounds });
      rows.push([name, parts[name].about], ...result.rows);
      record[name] = result.record;
    }
    return { rows, record };
  },
};
