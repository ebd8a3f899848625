import {
  fromData,
  LineMesh,
  manualSeed,
  nn,
  noGrad,
  ones,
  setRank,
  ShardwiseError,
  subscribe,
  tensor,
  type Tensor,
} from '@shardwise/core';
import { currentSession, dimRanges, ownPlace } from '@shardwise/core/extend';
import {
  collectivesOf,
  colwiseParallel,
  gptTensorParallel,
  headParallel,
  parallelize,
  planFor,
  redistributeOver,
  rowwiseParallel,
  sequenceParallel,
  shard,
  tensorParallel,
  vocabParallelCrossEntropy,
} from '@shardwise/strategies';
import type { RankContext } from '@shardwise/testing/ranks';
import { z } from 'zod';
import { join } from '../../../../test/ranks/join.ts';
import { batchOf, TiedGpt, tiedSequenceStyles, trainings } from './tensor-parallel-models.ts';

const traffic = z.record(z.string(), z.number());

export const observations = z.object({
  /** The losses of Megatron's test, and the sum of their gradient on this rank. */
  crossEntropy: z.object({ losses: z.array(z.number()), gradientSum: z.number() }),
  smoothedCrossEntropy: z.object({ losses: z.array(z.number()), gradientSum: z.number() }),
  smoothed: z.array(z.number()),
  /** The rank's number after a change of placement, by the new placement. */
  placements: z.record(z.string(), z.array(z.number())),
  /** The errors in the pass after one in which each rank had another batch: for training and for evaluation. */
  otherBatches: z.array(z.string()),
  /** The loss and the gradient of a trainable attention mask, with sharded attention and on one rank. */
  masks: z.record(z.string(), z.object({ parts: z.array(z.number()), alone: z.array(z.number()) })),
  dropout: z.object({ parts: z.array(z.number()), whole: z.array(z.number()) }),
  /** Logits of a pass with dropout. All ranks must hold the same bits. */
  logits: z.array(z.number()),
  /** The messages of at least one activation in a forward and a backward pass, by collective. */
  plain: traffic,
  sequence: traffic,
  gathersAgain: traffic,
  planned: traffic,
  /** The messages when products are in bf16, by collective and bytes: those that ran, and those in the plan. */
  inHalves: z.object({ counted: traffic, planned: traffic }),
  /** The range of each block of a fused projection along the first dim. */
  ranges: z.array(z.object({ start: z.number(), stop: z.number() })),
});
export type Observations = z.infer<typeof observations>;

export async function main(context: RankContext): Promise<Observations> {
  const { group } = await join(context);
  setRank({ device: currentSession().backend, mesh: new LineMesh('tp', group) });
  const { rank } = context;
  return {
    crossEntropy: await crossEntropyOfMegatron(rank, 0),
    smoothedCrossEntropy: await crossEntropyOfMegatron(rank, megatronSmoothing),
    smoothed: await smoothed(rank),
    placements: await placements(rank),
    masks: await masks(),
    otherBatches: await otherBatches(rank),
    dropout: await dropouts(rank),
    logits: await logitsWithDropout(rank),
    plain: await trafficOf('a GPT'),
    sequence: await trafficOf('a sequence-parallel GPT'),
    gathersAgain: await trafficOf(
      'a sequence-parallel GPT that gathers again, whose logits stay in parts',
    ),
    planned: planned(),
    inHalves: await trafficInHalves(),
    ranges: await rangesOfQkv(),
  };
}

/** Rows with the values 0 … 7 repeated, 32 classes per rank. The targets are 0, 2, … 30. */
function megatronRows(): { logits: Tensor; targets: Tensor } {
  const rows = Float32Array.from({ length: 16 * 32 }, (_, index) => index % 8);
  return {
    logits: fromData(rows, [16, 32], 'f32').requiresGrad_(),
    targets: fromData(
      Int32Array.from({ length: 16 }, (_, row) => 2 * row),
      [16],
      'i32',
    ),
  };
}

/** Corresponds to Megatron's `label_smoothing` of 0.1 over 128 classes, which spreads it over the 127 other classes. */
export const megatronSmoothing: number = (0.1 * 128) / 127;

async function crossEntropyOfMegatron(
  rank: number,
  labelSmoothing: number,
): Promise<Observations['crossEntropy']> {
  const { logits, targets } = megatronRows();
  const losses = vocabParallelCrossEntropy(logits, targets, { reduction: 'none', labelSmoothing });
  losses.sum().backward();
  const gradient = logits.grad;
  if (gradient === null) throw new RangeError(`no gradient on rank ${rank}`);
  return {
    losses: [...(await losses.data())].map(Number),
    gradientSum: await gradient.sum().item(),
  };
}

async function smoothed(rank: number): Promise<number[]> {
  const logits = Float32Array.from({ length: 3 * 2 }, (_, index) => {
    const row = Math.floor(index / 2);
    return Math.sin(row * 8 + rank * 2 + (index % 2));
  });
  const losses = vocabParallelCrossEntropy(
    fromData(logits, [3, 2], 'f32'),
    fromData(Int32Array.of(5, -100, 0), [3], 'i32'),
    { reduction: 'none', labelSmoothing: 0.2 },
  );
  return [...(await losses.data())].map(Number);
}

async function placements(rank: number): Promise<Record<string, number[]>> {
  const own = fromData(new Float32Array(4).fill(rank), [4], 'f32');
  const changed = {
    invariant: redistributeOver(own, 'tp', 'partial', 'invariant'),
    shard: redistributeOver(own, 'tp', 'partial', shard(0)),
    gathered: redistributeOver(own, 'tp', shard(0), 'invariant'),
  };
  const found: Record<string, number[]> = {};
  for (const [name, tensor] of Object.entries(changed)) {
    found[name] = [...(await tensor.data())].map(Number);
  }
  return found;
}

/** Attention with a learned number added to each score. */
class Biased extends nn.Module {
  readonly attention = new nn.MultiheadAttention(8, 8, { keyHeads: 4 });
  readonly mask: nn.Parameter;

  constructor(shape: readonly number[]) {
    super();
    const count = shape.reduce((product, each) => product * each, 1);
    const values = Float32Array.from({ length: count }, (_, index) => Math.sin(index));
    this.mask = new nn.Parameter(values, shape);
  }

  /** Shape: x [B, 3, 8] -> []. */
  forward(x: Tensor): Tensor {
    return this.attention.forward(x, { causal: true, mask: this.mask }).square().mean();
  }
}

async function masks(): Promise<Observations['masks']> {
  const values = Float32Array.from({ length: 2 * 3 * 8 }, (_, index) => Math.cos(index * 2));
  const x = fromData(values, [2, 3, 8], 'f32');
  const trained = async (loss: Tensor, mask: nn.Parameter): Promise<number[]> => {
    loss.backward();
    return [await loss.item(), ...(await (mask.grad ?? loss).data())].map(Number);
  };
  const found: Observations['masks'] = {};
  for (const shape of [
    [3, 3],
    [1, 3, 3],
    [8, 3, 3],
    [2, 8, 1, 3],
  ]) {
    manualSeed(2);
    const alone = new Biased(shape);
    manualSeed(2);
    const styles = { attention: headParallel({ numHeads: 8, keyHeads: 4 }) };
    const parallel = await parallelize(new Biased(shape), tensorParallel(styles));
    found[`[${shape.join(', ')}]`] = {
      alone: await trained(alone.forward(x), alone.mask),
      parts: await trained(parallel.forward(x), parallel.module.mask),
    };
  }
  return found;
}

class Perceptron extends nn.Module {
  readonly up = new nn.Linear(2, 4);
  readonly down = new nn.Linear(4, 2);

  /** Shape: x [B, 2] -> []. */
  forward(x: Tensor): Tensor {
    return this.down.forward(this.up.forward(x).relu()).square().mean();
  }
}

async function otherBatches(rank: number): Promise<string[]> {
  const styles = { up: colwiseParallel(), down: rowwiseParallel() };
  const said: string[] = [];
  for (const evaluates of [false, true]) {
    const parallel = await parallelize(new Perceptron(), tensorParallel(styles));
    const pass = async (own: number): Promise<void> => {
      const loss = parallel.forward(fromData(Float32Array.of(1, own), [1, 2], 'f32'));
      if (loss.requiresGrad) loss.backward();
      await loss.item();
    };
    await pass(evaluates ? 0 : rank);
    if (evaluates) await pass(0);
    try {
      if (evaluates) await noGrad(() => parallel.forward(tensor([[1, rank]]))).item();
      await pass(0);
      said.push('nothing');
    } catch (error) {
      if (!ShardwiseError.isInstance(error)) throw error;
      said.push(`${error.code}: ${error.message}`);
    }
  }
  return said;
}

class TwoDropouts extends nn.Module {
  readonly whole = new nn.Dropout(0.5);
  readonly parts = new nn.Dropout(0.5);

  /** Shape: x N -> N, N. */
  forward(x: Tensor): readonly [Tensor, Tensor] {
    const parts = this.parts.forward(x);
    return [this.whole.forward(x), parts];
  }
}

async function dropouts(rank: number): Promise<Observations['dropout']> {
  manualSeed(rank);
  const parallel = await parallelize(
    new TwoDropouts(),
    tensorParallel({ parts: sequenceParallel({ dim: 0 }) }),
  );
  const [whole, parts] = parallel.forward(ones([64]));
  return {
    whole: [...(await whole.data())].map(Number),
    parts: [...(await parts.data())].map(Number),
  };
}

async function logitsWithDropout(rank: number): Promise<number[]> {
  manualSeed(rank);
  const styles = { ...tiedSequenceStyles };
  const parallel = await parallelize(new TiedGpt(0.2), tensorParallel(styles));
  const part = parallel.forward(batchOf(0).ids);
  const all = redistributeOver(part, 'tp', shard(-1), 'invariant');
  return [...(await all.data())].map(Number);
}

/** The bytes of an activation: B · T · C elements of 4 bytes. */
export const activationBytes: number = 4 * 8 * 16 * 4;

async function trafficOf(name: string): Promise<Record<string, number>> {
  const training = trainings[name];
  if (training === undefined) throw new RangeError(name);
  const model = training.build();
  const parallel = await parallelize(model, tensorParallel(training.styles));
  const { ids, targets } = batchOf(0);
  const loss = training.loss(parallel.forward(ids), targets);
  loss.backward();
  const found: Record<string, number> = {};
  const stop = subscribe(({ category, name: operation, detail = '' }) => {
    if (category !== 'collective') return;
    // These are the bytes of the input or the output, whichever is larger. For a gather or scatter that is the whole
    // tensor.
    const bytes = Number.parseInt(detail, 10);
    if (bytes === activationBytes) found[operation] = (found[operation] ?? 0) + 1;
  });
  await loss.item();
  stop();
  return found;
}

/** Returns the same counts from the plan, without the logits. */
function planned(): Record<string, number> {
  const training = trainings['a GPT'];
  if (training === undefined) throw new RangeError('a GPT');
  const styles = gptTensorParallel({ heads: 4, logits: 'parts' });
  const plan = planFor(training.build(), tensorParallel(styles, { tokens: 4 * 8 }));
  const found: Record<string, number> = {};
  for (const { operation, bytes, when } of collectivesOf(plan)) {
    if (bytes !== activationBytes || when === 'start') continue;
    found[operation] = (found[operation] ?? 0) + 1;
  }
  return found;
}

/** Activations are sent in the 16 bits of products, except for those of the embedding. */
async function trafficInHalves(): Promise<Observations['inHalves']> {
  const training = trainings['a GPT whose logits stay in parts'];
  if (training === undefined) throw new RangeError('no training');
  const mixedPrecision = { computeDtype: 'bf16' } as const;
  const strategy = tensorParallel(training.styles, { tokens: 4 * 8, mixedPrecision });
  const isActivation = (bytes: number): boolean =>
    bytes === activationBytes || bytes === activationBytes / 2;
  const found: Observations['inHalves'] = { counted: {}, planned: {} };
  const note = (counts: Record<string, number>, operation: string, bytes: number): void => {
    if (!isActivation(bytes)) return;
    const key = `${operation} of ${bytes}`;
    counts[key] = (counts[key] ?? 0) + 1;
  };
  const model = training.build();
  for (const { operation, bytes, when } of collectivesOf(planFor(model, strategy))) {
    if (when !== 'start') note(found.planned, operation, bytes);
  }
  const parallel = await parallelize(model, strategy);
  const { ids, targets } = batchOf(0);
  const loss = training.loss(parallel.forward(ids), targets);
  loss.backward();
  const stop = subscribe(({ category, name: operation, detail = '' }) => {
    if (category === 'collective') note(found.counted, operation, Number.parseInt(detail, 10));
  });
  await loss.item();
  stop();
  return found;
}

async function rangesOfQkv(): Promise<Observations['ranges']> {
  const training = trainings['a GPT'];
  if (training === undefined) throw new RangeError('a GPT');
  const model = training.build();
  await parallelize(model, tensorParallel(training.styles));
  const weight = model
    .namedParameters()
    .find(([name]) => name === 'blocks.0.attention.qkv.weight')?.[1];
  if (weight === undefined) throw new TypeError('a part is expected');
  const { wholeShape, layout } = weight.part;
  return [...dimRanges(wholeShape[0] ?? 0, ['tp'], layout, ownPlace)];
}
