import { readFile } from 'node:fs/promises';
import { basename, dirname } from 'node:path';
import { cpu } from '@shardwise/backend-cpu';
import { createMesh, joinThreadsWorld, type ThreadsWorld } from '@shardwise/collectives';
import { allReduce, fromData, nn, noGrad, optim, setRank, type Tensor } from '@shardwise/core';
import { diskFolder } from '@shardwise/core/node';
import { Tokenizer } from '@huggingface/tokenizers';
import { addLora, ggufTokenizer, LlamaForCausalLM } from '@shardwise/models';
import { fromPretrained } from '@shardwise/models/node';
import { ddp, parallelize } from '@shardwise/strategies';
import type { RankContext } from '@shardwise/testing/ranks';
import { z } from 'zod';
import { uniform } from '../golden/formulas.ts';

// What tools/golden-wordnet-lora.py does, on ranks. Its comments say what the numbers are.

const classes =
  'tops act animal artifact attribute body cognition communication event feeling food group location motive object person phenomenon plant possession process quantity relation shape state substance time'.split(
    ' ',
  );
const FIRST_CLASS = 3;
const [STRIDE, TRAINED, HELD_OUT] = [25, 2000, 1000];
const MIXER = 617;
const [LENGTH, BATCH, WARMUP] = [32, 16, 10];
const EVALUATED = 50;

export interface WordnetTask {
  readonly model: string;
  readonly glosses: string;
  readonly learningRate: number;
}

export const trainingResult = z.object({
  losses: z.array(z.number()),
  accuracy: z.number(),
  /** The time of the 125 steps, and what the processor spent on them in all threads of this process. */
  seconds: z.number(),
  processorSeconds: z.number(),
});

interface Row {
  readonly ids: readonly number[];
  readonly label: number;
}

export async function main({
  rank,
  world,
  data,
}: RankContext<ThreadsWorld, WordnetTask>): Promise<z.infer<typeof trainingResult>> {
  const region = world.regions[rank];
  if (region === undefined) throw new RangeError(`no region for rank ${rank}`);
  const size = world.regions.length;
  const mesh = await createMesh(joinThreadsWorld(world, rank), [{ name: 'dp', size }]);
  setRank({ device: await cpu({ memory: world.memory, ...region }), mesh });

  const folder = diskFolder(dirname(data.model));
  const { tokenizer: json, config } = await ggufTokenizer(folder, basename(data.model));
  const tokenizer = new Tokenizer(json, config);
  const answers = classes.map((name) => onlyToken(tokenizer, ` ${name}`));
  const { train, heldOut } = samplesOf(await readFile(data.glosses, 'utf8'), tokenizer);

  const model = await fromPretrained(data.model);
  if (!(model instanceof LlamaForCausalLM)) throw new TypeError(model.architecture);
  addLora(model, { rank: 8, alpha: 16, targetModules: 'all-linear' });
  for (const [name, parameter] of model.namedParameters()) {
    if (!name.endsWith('lora_A.weight')) continue;
    const [, width = 1] = parameter.shape;
    const values = uniform(name, parameter.numel).map((value) => value * (2 / Math.sqrt(width)));
    parameter.assign(fromData(values, parameter.shape, 'f32'));
  }
  const classifier = new GlossClassifier(model);
  const parallel = await parallelize(classifier, ddp());
  const trained = model.parameters().filter(({ requiresGrad }) => requiresGrad);
  const optimizer = new optim.AdamW(trained, { lr: data.learningRate, weightDecay: 0 });

  const share = BATCH / size;
  const steps = TRAINED / BATCH;
  const losses: number[] = [];
  const start = performance.now();
  const processorStart = process.cpuUsage();
  for (let step = 0; step < steps; step++) {
    const factor = step < WARMUP ? (step + 1) / WARMUP : (steps - step) / (steps - WARMUP);
    for (const group of optimizer.paramGroups) group.lr = data.learningRate * factor;
    optimizer.zeroGrad();
    const first = step * BATCH + rank * share;
    const rows = train.slice(first, first + share);
    const targets = Int32Array.from(rows, ({ label }) => answers[label] ?? Number.NaN);
    const loss = parallel.forward(...batchOf(rows), fromData(targets, [share], 'i32'));
    loss.backward();
    await optimizer.step();
    losses.push(await allReduce(loss.detach(), 'dp').div(size).item());
    if (rank === 0 && step % 5 === 0) {
      console.log(`step ${step}: ${losses.at(-1)} after ${secondsSince(start)} s`);
    }
  }
  const seconds = secondsSince(start);
  const { user, system } = process.cpuUsage(processorStart);

  classifier.eval();
  const own = heldOut.filter((_, index) => index % size === rank);
  const right = await countRight(classifier, own, answers);
  const all = await allReduce(fromData(Float32Array.of(right), [], 'f32'), 'dp').item();
  return {
    losses,
    accuracy: all / heldOut.length,
    seconds,
    processorSeconds: (user + system) / 1e6,
  };
}

function onlyToken(tokenizer: Tokenizer, text: string): number {
  const [id, ...rest] = tokenizer.encode(text).ids;
  if (id === undefined || rest.length > 0) throw new RangeError(`several tokens of ${text}`);
  return id;
}

function samplesOf(
  file: string,
  tokenizer: Tokenizer,
): { readonly train: readonly Row[]; readonly heldOut: readonly Row[] } {
  const lines = file.split('\n').filter((line) => line !== '' && !line.startsWith('  '));
  const rows = lines
    .filter((_, index) => index % STRIDE === 0)
    .map((line): Row => {
      const end = line.indexOf(' | ');
      const gloss = line
        .slice(end + 3)
        .split('; ')[0]
        ?.trim();
      const prompt = `Class of the gloss "${gloss}":`;
      return {
        ids: tokenizer.encode(prompt).ids,
        label: Number(line.slice(0, end).split(' ')[1]) - FIRST_CLASS,
      };
    })
    .filter(({ ids }) => ids.length < LENGTH);
  const train = rows.filter((_, index) => index % 3 !== 2).slice(0, TRAINED);
  const heldOut = rows.filter((_, index) => index % 3 === 2).slice(0, HELD_OUT);
  if (train.length !== TRAINED || heldOut.length !== HELD_OUT) throw new RangeError('few glosses');
  return { train: train.flatMap((_, index) => train[(index * MIXER) % TRAINED] ?? []), heldOut };
}

/** Tokens, their mask, and the places of the last tokens of prompts. Shape: i32 [B, LENGTH], [B, LENGTH], [B]. */
type Batch = readonly [inputIds: Tensor, attentionMask: Tensor, ends: Tensor];

function batchOf(rows: readonly Row[]): Batch {
  const inputIds = new Int32Array(rows.length * LENGTH);
  const attentionMask = new Int32Array(inputIds.length);
  for (const [row, { ids }] of rows.entries()) {
    inputIds.set(ids, row * LENGTH);
    attentionMask.fill(1, row * LENGTH, row * LENGTH + ids.length);
  }
  const ends = Int32Array.from(rows, ({ ids }) => ids.length - 1);
  return [
    fromData(inputIds, [rows.length, LENGTH], 'i32'),
    fromData(attentionMask, [rows.length, LENGTH], 'i32'),
    fromData(ends, [rows.length], 'i32'),
  ];
}

/** The model with a loss of the token after each prompt, so that the head computes nothing of other tokens. */
class GlossClassifier extends nn.Module {
  readonly model: LlamaForCausalLM;

  constructor(model: LlamaForCausalLM) {
    super();
    this.model = model;
  }

  /** Shape: targets i32 [B] -> []. */
  forward(inputIds: Tensor, attentionMask: Tensor, ends: Tensor, targets: Tensor): Tensor {
    const hidden = this.hiddenAtEnds(inputIds, attentionMask, ends);
    return nn.functional.linearCrossEntropy(hidden, this.model.lmHead.weight, targets);
  }

  /** Shape: -> [B, C]. */
  hiddenAtEnds(...[inputIds, attentionMask, ends]: Batch): Tensor {
    const hidden = this.model.model.forward(inputIds, { attentionMask });
    const [rows = 0, , width = 0] = hidden.shape;
    const index = ends.reshape([rows, 1, 1]).expand([rows, 1, width]);
    return hidden.gather(1, index).squeeze(1);
  }
}

/** The number of rows in which the class of the largest logit is the right one. */
async function countRight(
  classifier: GlossClassifier,
  rows: readonly Row[],
  answers: readonly number[],
): Promise<number> {
  const words = fromData(Int32Array.from(answers), [answers.length], 'i32');
  let right = 0;
  for (let start = 0; start < rows.length; start += EVALUATED) {
    const part = rows.slice(start, start + EVALUATED);
    const chosen = await noGrad(() => {
      const hidden = classifier.hiddenAtEnds(...batchOf(part));
      const weight = classifier.model.lmHead.weight.indexSelect(0, words);
      return nn.functional.linear(hidden, weight).argMax(1);
    }).data();
    right += part.filter(({ label }, row) => Number(chosen[row]) === label).length;
  }
  return right;
}

function secondsSince(start: number): number {
  return Math.round((performance.now() - start) / 100) / 10;
}
