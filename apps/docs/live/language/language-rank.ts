// A rank that trains the GPT of examples/gpt on sums or on the bytes of a text.
import { dist, fromData, Generator, nn, noGrad, optim, type Tensor } from 'shardwise/browser';
import { GPT } from '../../../../examples/gpt/model.ts';
import { LiveRank } from '../rank/live-rank.ts';
import {
  CONTEXT,
  DIGITS,
  type LanguageLook,
  type LanguageTask,
  QUESTION,
  SUM_CHARACTERS,
  SUMS,
  WINDOWS,
} from './language-task.ts';
import { answerText, askedPairs, idsOf, learnedPairs, questionOf, textOf } from './sums.ts';

const ASKED = 100;
const SAMPLE_BYTES = 80;
const LEARNING_RATE = 3e-3;
const live = await LiveRank.join();
const { rank, worldSize } = live.context;
const task = live.task as LanguageTask;
const isSums = task.kind === 'sums';
const network = new GPT({
  vocabularySize: isSums ? SUM_CHARACTERS.length : 256,
  contextLength: isSums ? QUESTION + DIGITS - 1 : CONTEXT,
  layers: 2,
  heads: 4,
  channels: 64,
});
const strategies = {
  ddp: () => dist.ddp(),
  'zero-2': () => dist.zero({ stage: 2 }),
  fsdp: () => dist.fsdp(),
};
const model = await dist.parallelize(network, strategies[task.strategy]());
const optimizer = new optim.AdamW(network.parameters(), { lr: LEARNING_RATE });
const rate = optim.cosineSchedule(live.steps, 0.05);

/** Returns this rank's part of the rows of a step. */
function own<T>(rows: readonly T[]): readonly T[] {
  const share = rows.length / worldSize;
  return rows.slice(rank * share, (rank + 1) * share);
}

/** Makes a tensor of rows. Shape: -> i32 [B, T]. */
function tensorOf(rows: readonly (readonly number[])[]): Tensor {
  return fromData(Int32Array.from(rows.flat()), [rows.length, rows[0]?.length ?? 0], 'i32');
}

/** Returns rows of tokens. Each row has one more token than the model sees. */
function rowsOf(step: number): readonly (readonly number[])[] {
  if (task.kind === 'sums') return own(learnedPairs(step, SUMS)).map((pair) => idsOf(textOf(pair)));
  const places = Array.from(new Generator(step).rand(WINDOWS), (share) =>
    Math.floor(share * (task.text.length - CONTEXT)),
  );
  return own(places).map((at) => [...task.text.subarray(at, at + CONTEXT + 1)]);
}

async function update(step: number): Promise<number> {
  for (const group of optimizer.paramGroups) group.lr = LEARNING_RATE * rate(step);
  const rows = rowsOf(step);
  const logits = model.forward(tensorOf(rows.map((row) => row.slice(0, -1))));
  const targets = tensorOf(rows.map((row) => row.slice(1)));
  // The model can only know the digits of the answer, and not the summands.
  const from = isSums ? QUESTION - 1 : 0;
  const asked = logits.slice(1, from, logits.shape[1] ?? 0);
  const loss = nn.functional.crossEntropy(
    asked.flatten(0, 1),
    targets.slice(1, from, targets.shape[1] ?? 0).flatten(),
  );
  optimizer.zeroGrad();
  loss.backward();
  await optimizer.step();
  return loss.item();
}

/** Returns the most likely token at a place of each row. */
async function bestAt(
  rows: readonly (readonly number[])[],
  place: number,
): Promise<readonly number[]> {
  const best = noGrad(() => model.forward(tensorOf(rows)).select(1, place).argMax(1));
  return Array.from(await best.data(), Number);
}

async function answerSums(): Promise<LanguageLook> {
  const texts = askedPairs(ASKED).map(textOf);
  // Rows keep their length, so that one plan serves all digits.
  const rows = texts.map((text) => [
    ...idsOf(questionOf(text)),
    ...Array<number>(DIGITS - 1).fill(0),
  ]);
  const answers: number[][] = texts.map(() => []);
  for (let digit = 0; digit < DIGITS; digit += 1) {
    const best = await bestAt(rows, QUESTION - 1 + digit);
    for (const [index, id] of best.entries()) {
      answers[index]?.push(id);
      const row = rows[index];
      if (row !== undefined && digit < DIGITS - 1) row[QUESTION + digit] = id;
    }
  }
  const all = texts.map((text, index) => {
    const answer = answerText(answers[index] ?? []);
    return {
      question: questionOf(text),
      answer,
      isRight: answer === answerText(idsOf(text.slice(QUESTION))),
    };
  });
  return {
    kind: 'sums',
    exact: all.filter(({ isRight }) => isRight).length / all.length,
    answers: all.filter((_, index) => index % 17 === 3),
  };
}

/** Continues the beginning of the text. Each byte is drawn by its probability. */
async function writeText(text: Uint8Array, step: number): Promise<LanguageLook> {
  const window = [...text.subarray(0, CONTEXT)];
  const shares = new Generator(step).rand(SAMPLE_BYTES);
  const written: number[] = [];
  for (const share of shares) {
    const next = noGrad(() =>
      model
        .forward(tensorOf([window]))
        .select(1, -1)
        .mul(1.4)
        .softmax(-1),
    );
    const probabilities = Array.from(await next.data(), Number);
    let left = share;
    const found = probabilities.findIndex((probability) => (left -= probability) < 0);
    const byte = found === -1 ? 32 : found;
    written.push(byte);
    window.push(byte);
    window.shift();
  }
  return { kind: 'text', sample: new TextDecoder().decode(Uint8Array.from(written)) };
}

await live.train({
  network,
  optimizer,
  plan: model.plan,
  update,
  look: (step) => (task.kind === 'sums' ? answerSums() : writeText(task.text, step)),
  lookSteps: 50,
  checkpointSteps: 50,
});
