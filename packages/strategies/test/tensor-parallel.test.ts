import { cpu } from '@shardwise/backend-cpu';
import {
  fromData,
  LayoutError,
  manualSeed,
  type MeshAxis,
  nn,
  noGrad,
  ones,
  setRank,
  ShardwiseError,
  type Strategy,
  subscribe,
  type Tensor,
  tensor,
} from '@shardwise/core';
import { dimRanges, ownPlace } from '@shardwise/core/extend';
import {
  collectivesOf,
  colwiseParallel,
  compose,
  ddp,
  explain,
  fsdp,
  gptTensorParallel,
  headParallel,
  parallelize,
  planFor,
  redistributeOver,
  rowwiseParallel,
  sequenceParallel,
  shard,
  type StylePlan,
  tensorParallel,
  vocabParallelCrossEntropy,
  vocabParallelEmbedding,
  zero,
} from '@shardwise/strategies';
import { onRanks, type RankInThread } from '@shardwise/testing/node';
import { beforeAll, describe, expect, it } from 'vitest';
import {
  batchOf,
  sizes,
  TiedGpt,
  tiedSequenceStyles,
  tiedStyles,
  trainings,
} from './ranks/tensor-parallel-models.ts';

type Traffic = Record<string, number>;

interface Observations {
  /** The losses of Megatron's test, and the sum of their gradient on this rank. */
  crossEntropy: {
    losses: number[];
    gradientSum: number;
  };
  smoothedCrossEntropy: {
    losses: number[];
    gradientSum: number;
  };
  smoothed: number[];
  /** The rank's number after a change of placement, by the new placement. */
  placements: Record<string, number[]>;
  /** The errors in the pass after one in which each rank had another batch: for training and for evaluation. */
  otherBatches: string[];
  /** The loss and the gradient of a trainable attention mask, with sharded attention and on one rank. */
  masks: Record<
    string,
    {
      parts: number[];
      alone: number[];
    }
  >;
  dropout: {
    parts: number[];
    whole: number[];
  };
  /** Logits of a pass with dropout. All ranks must hold the same bits. */
  logits: number[];
  /** The messages of at least one activation in a forward and a backward pass, by collective. */
  plain: Traffic;
  sequence: Traffic;
  gathersAgain: Traffic;
  planned: Traffic;
  /** The messages when products are in bf16, by collective and bytes: those that ran, and those in the plan. */
  inHalves: {
    counted: Traffic;
    planned: Traffic;
  };
  /** The range of each block of a fused projection along the first dim. */
  ranges: {
    start: number;
    stop: number;
  }[];
}

async function observe(context: RankInThread): Promise<Observations> {
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
    planned: plannedTraffic(),
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
const megatronSmoothing: number = (0.1 * 128) / 127;

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
const activationBytes: number = 4 * 8 * 16 * 4;

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
function plannedTraffic(): Record<string, number> {
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

beforeAll(async () => {
  setRank({ device: await cpu() });
});

function specsOf(model: nn.Module): Parameters<Strategy['plan']>[0] {
  const names = new Map<unknown, string[]>();
  for (const [path, module] of model.namedModules()) {
    for (const [name, parameter] of module.ownParameters()) {
      const full = path === '' ? name : `${path}.${name}`;
      names.set(parameter, [...(names.get(parameter) ?? []), full]);
    }
  }
  const parameters = model.namedParameters().map(([name, parameter]) => ({
    name,
    shape: parameter.shape,
    dtype: parameter.dtype,
    requiresGrad: parameter.requiresGrad,
    names: names.get(parameter) ?? [name],
  }));
  return { parameters };
}

const tp = (size: number): MeshAxis[] => [{ name: 'tp', size }];

function planned(model: nn.Module, styles: StylePlan, axes: readonly MeshAxis[]): unknown {
  return tensorParallel(styles).plan(specsOf(model), axes);
}

class Pair extends nn.Module {
  readonly up = new nn.Linear(6, 9);
  readonly down = new nn.Linear(9, 6);
}

describe('the plan of tensor parallelism', () => {
  it('the plan of tensor parallelism says which dim of each parameter is cut, and nothing of the others', () => {
    const plan = tensorParallel({ up: colwiseParallel(), down: rowwiseParallel() }).plan(
      specsOf(new Pair()),
      tp(3),
    );
    const layouts = plan.parameters.map(({ name, parameter }) => [name, parameter.dims]);
    expect(layouts).toEqual([
      ['up.weight', [['tp'], []]],
      ['up.bias', [['tp']]],
      ['down.weight', [[], ['tp']]],
      ['down.bias', [[]]],
    ]);
  });

  it('the plan of tensor parallelism says in what products compute', () => {
    const mixedPrecision = { computeDtype: 'bf16' } as const;
    const strategy = tensorParallel({ up: colwiseParallel() }, { mixedPrecision });
    const plan = strategy.plan(specsOf(new Pair()), tp(3));
    expect(plan.autocast).toEqual({ dtype: 'bf16', outputDtype: 'f32' });
    expect(explain(plan)).toContain('; products in bf16');
  });

  it('the plan of tensor parallelism prints as a table', () => {
    const plan = tensorParallel({ up: colwiseParallel() }).plan(specsOf(new Pair()), tp(3));
    expect(explain(plan)).toContain('shard(0: tp)');
  });

  it.each<[string, () => unknown, RegExp]>([
    [
      'features that the axis does not divide',
      () => planned(new Pair(), { up: colwiseParallel() }, tp(2)),
      /'up\.weight' of shape \[9, 6\] over 2 ranks along dim 0: 9 elements, 1 more than a multiple of 2\. Pad it to 10/,
    ],
    [
      'heads that the axis does not divide',
      () =>
        planned(
          new TiedGpt(),
          { 'blocks.*.attention': headParallel({ numHeads: 8, keyHeads: 4 }) },
          tp(8),
        ),
      /'blocks\.0\.attention\.in_proj_weight' of shape \[32, 16\] over 8 ranks along dim 0: 4 heads, 4 more than a multiple of 8\. Use a number of ranks that divides 4/,
    ],
    [
      'heads of a fused projection that the axis does not divide',
      () =>
        planned(
          trainings['a GPT']?.build() ?? new Pair(),
          gptTensorParallel({ heads: sizes.heads }),
          tp(8),
        ),
      /'blocks\.0\.attention\.qkv\.weight' of shape \[48, 16\] over 8 ranks along dim 0: 4 heads, 4 more than a multiple of 8\. Use a number of ranks that divides 4/,
    ],
    [
      'heads that a fused projection has not',
      () =>
        planned(trainings['a GPT']?.build() ?? new Pair(), gptTensorParallel({ heads: 5 }), tp(2)),
      /of shape \[48, 16\] as 5 \+ 5 \+ 5 heads along dim 0: 48 is no multiple of 15\. Give the numbers of heads/,
    ],
    [
      'a vocabulary that the axis does not divide',
      () => planned(new TiedGpt(), { tokens: vocabParallelEmbedding() }, tp(5)),
      /'tokens\.weight' of shape \[24, 16\] over 5 ranks along dim 0: 24 elements, 4 more than a multiple of 5\. Pad it to 25, or use a number of ranks that divides 24/,
    ],
    [
      'an axis that the mesh has not',
      () => planned(new Pair(), { up: colwiseParallel() }, [{ name: 'dp', size: 2 }]),
      /over the mesh axis 'tp': the axes dp/,
    ],
    [
      'a shared weight that two styles cut otherwise',
      () => planned(new TiedGpt(), { ...tiedStyles, head: rowwiseParallel() }, tp(2)),
      /'tokens\.weight' sharded along dim 1 by rowwiseParallel\(\) of 'head': it is sharded along dim 0 by vocabParallelEmbedding\(\) of 'tokens'/,
    ],
    [
      'a style of another kind of module',
      () => planned(new TiedGpt(), { norm: colwiseParallel() }, tp(2)),
      /colwiseParallel\(\) of the module 'norm', by its 'weight' of 2 dims: 'weight' of shape \[16\]/,
    ],
    [
      'two strategies over one axis',
      () =>
        compose(tensorParallel({ up: colwiseParallel() }), ddp({ axis: 'tp' })).plan(
          specsOf(new Pair()),
          tp(3),
        ),
      /both use the 3 ranks of the axis 'tp'/,
    ],
    ...(['ddp', 'fsdp', 'zero'] as const).map((name): [string, () => unknown, RegExp] => [
      `tensor parallelism after ${name}`,
      () =>
        compose(
          { ddp: ddp(), fsdp: fsdp(), zero: zero({ stage: 1 }) }[name],
          tensorParallel({ up: colwiseParallel() }),
        ).plan(specsOf(new Pair()), [{ name: 'dp', size: 2 }, ...tp(3)]),
      /on a mesh of dp=2, tp=3: \S+ comes first, and divides the batch over the 2 ranks of 'dp'\. Use one strategy that divides the batch, and put it last, as in compose\(tensorParallel\(styles\), fsdp\(\)\)/,
    ]),
    [
      'two strategies that divide the batch',
      () =>
        compose(
          compose(tensorParallel({ up: colwiseParallel() }), ddp()),
          fsdp({ axis: 'replicas' }),
        ).plan(specsOf(new Pair()), [
          { name: 'replicas', size: 2 },
          { name: 'dp', size: 2 },
          ...tp(3),
        ]),
      /tensor-parallel × ddp comes first, and divides the batch over the 2 ranks of 'dp'/,
    ],
    [
      'a weight that tensor parallelism over two axes cuts twice',
      () =>
        compose(
          tensorParallel({ up: colwiseParallel() }),
          tensorParallel({ up: rowwiseParallel() }, { axis: 'tp2' }),
        ).plan(specsOf(new Pair()), [...tp(3), { name: 'tp2', size: 2 }]),
      /the first cuts 'up\.weight' along dim 0 over the 3 ranks of 'tp', the second along dim 1 over the 2 ranks of 'tp2'\. Give the two/,
    ],
    [
      'hybrid sharding beside it that names one axis twice',
      () =>
        compose(
          tensorParallel({ up: colwiseParallel() }),
          fsdp({ axis: 'dp', replicas: 'dp' }),
        ).plan(specsOf(new Pair()), [{ name: 'dp', size: 2 }, ...tp(3)]),
      /fsdp over the mesh axis 'dp', in replicas over 'dp': one axis, .*\. Use a mesh of two axes/,
    ],
    [
      'hybrid sharding beside it whose replicas are the ranks of tensor parallelism',
      () =>
        compose(tensorParallel({ up: colwiseParallel() }), fsdp({ replicas: 'tp' })).plan(
          specsOf(new Pair()),
          [{ name: 'dp', size: 2 }, ...tp(3)],
        ),
      /on a mesh of dp=2, tp=3: both use the 3 ranks of the axis 'tp'\. Give each its own axis of the mesh/,
    ],
    [
      'an axis of another strategy that the mesh has not',
      () =>
        compose(tensorParallel({ up: colwiseParallel() }), fsdp()).plan(specsOf(new Pair()), tp(3)),
      /fsdp over the mesh axis 'dp': the axes tp\. Name an axis of the mesh/,
    ],
  ])('refuses %s', (_, plan, message) => {
    expect(plan).toThrow(LayoutError);
    expect(plan).toThrow(message);
  });

  it('composes: the second strategy lays out what the first leaves on a rank', () => {
    const axes = [{ name: 'dp', size: 2 }, ...tp(3)];
    const plan = compose(tensorParallel({ up: colwiseParallel() }), fsdp()).plan(
      specsOf(new Pair()),
      axes,
    );
    const [weight, bias, down] = plan.parameters;
    expect(weight?.parameter.dims).toEqual([['tp', 'dp'], []]);
    expect(bias?.parameter.dims).toEqual([['tp', 'dp']]);
    expect(down?.parameter.dims).toEqual([['dp'], []]);
    expect(plan.batch.dims).toEqual([['dp']]);
    // The side with up gathers [3, 6] + [3, padded to 4]. The other side gathers [6, 9] and [6].
    const gathered = collectivesOf(plan).filter(
      ({ operation, when }) => operation === 'allGather' && when === 'forward',
    );
    expect(gathered.reduce((sum, { bytes }) => sum + bytes, 0)).toBe(4 * (4 * 6 + 4 + 6 * 9 + 6));
  });

  it('cuts queries, keys and values each alone', () => {
    const training = trainings['a GPT'];
    const plan = tensorParallel(gptTensorParallel({ heads: 4 })).plan(
      specsOf(training?.build() ?? new Pair()),
      tp(2),
    );
    const cut = plan.parameters.filter(({ parameter }) => parameter.dims.flat().length > 0);
    expect(cut.map(({ name }) => name).filter((name) => !name.startsWith('blocks.1'))).toEqual([
      'tokens.weight',
      'blocks.0.attention.qkv.weight',
      'blocks.0.attention.qkv.bias',
      'blocks.0.attention.projection.weight',
      'blocks.0.up.weight',
      'blocks.0.up.bias',
      'blocks.0.down.weight',
      'head.weight',
    ]);
  });
});

describe('tensor parallelism on 4 ranks', () => {
  const size = 4;
  let ranks: readonly Observations[] = [];

  beforeAll(async () => {
    ranks = await onRanks(size, observe, { axes: [{ name: 'tp', size }] });
  });

  it('tensor parallelism on 4 ranks says on every rank that ranks of layers were given different batches', () => {
    const said =
      /^COLLECTIVE_MISMATCH: another pass of a model whose layers the ranks of 'tp' shard: an earlier batch of rank 1 of 'tp' was another one than that of rank 0\. Give all ranks of 'tp' the same batches/;
    for (const { otherBatches } of ranks) {
      expect(otherBatches).toEqual([expect.stringMatching(said), expect.stringMatching(said)]);
    }
  });

  it('tensor parallelism on 4 ranks gives each rank the part of an attention mask that its heads read, and the mask its whole gradient', () => {
    for (const { masks } of ranks) {
      expect(Object.keys(masks)).toEqual(['[3, 3]', '[1, 3, 3]', '[8, 3, 3]', '[2, 8, 1, 3]']);
      for (const [shape, { parts, alone }] of Object.entries(masks)) {
        expect(parts.length, shape).toBe(alone.length);
        parts.forEach((value, index) => expect(value, shape).toBeCloseTo(alone[index] ?? NaN, 6));
      }
    }
  });

  it("tensor parallelism on 4 ranks has the cross-entropy of Megatron's test, and its gradient, without gathered logits", () => {
    for (const { crossEntropy } of ranks) {
      crossEntropy.losses.forEach((loss, row) =>
        expect(loss).toBeCloseTo([10.2309, 8.2309, 6.2309, 4.2309][row % 4] ?? NaN, 4),
      );
    }
    // Softmax minus one for the target sums to 0 over all classes. All targets are on rank 0.
    const sums = ranks.map(({ crossEntropy }) => crossEntropy.gradientSum);
    expect(sums.reduce((sum, each) => sum + each)).toBeCloseTo(0, 4);
    for (const sum of sums.slice(1)) expect(sum).toBeCloseTo(16 / size, 4);
  });

  it("smooths labels as Megatron's, with the gradient of it", () => {
    // The logits are 0 to 7 repeated, so their mean is 3.5. The logits of the targets are 0, 2, 4 and 6.
    const smoothing = megatronSmoothing;
    ranks.forEach(({ smoothedCrossEntropy: { losses, gradientSum } }, rank) => {
      losses.forEach((loss, row) => {
        const target = 2 * (row % 4);
        expect(loss).toBeCloseTo(10.2309 - (1 - smoothing) * target - 3.5 * smoothing, 4);
      });
      // The gradient is softmax, minus the target's share on rank 0, minus an even share of the rest on all ranks.
      const targets = rank === 0 ? 16 * (1 - smoothing) : 0;
      expect(gradientSum).toBeCloseTo(16 / size - targets - (16 * smoothing) / size, 4);
    });
  });

  it('smooths labels and ignores targets as the cross-entropy of one rank', async () => {
    const logits = Float32Array.from({ length: 3 * 8 }, (_, index) => Math.sin(index));
    const expected = await nn.functional
      .crossEntropy(
        fromData(logits, [3, 8], 'f32'),
        fromData(Int32Array.of(5, -100, 0), [3], 'i32'),
        { reduction: 'none', labelSmoothing: 0.2 },
      )
      .data();
    for (const { smoothed } of ranks) {
      smoothed.forEach((loss, row) => expect(loss).toBeCloseTo(Number(expected[row]), 5));
    }
  });

  it("reduces and gathers as Megatron's mappings", () => {
    ranks.forEach(({ placements }) => {
      expect(placements['invariant']).toEqual([6, 6, 6, 6]);
      expect(placements['shard']).toEqual([6]);
      expect(placements['gathered']).toEqual([0, 1, 2, 3].flatMap((r) => [r, r, r, r]));
    });
  });

  it('drops the same elements of what all ranks have, and others of their own parts', () => {
    const [first, ...others] = ranks.map(({ dropout }) => dropout);
    for (const { whole } of others) expect(whole).toEqual(first?.whole);
    const parts = new Set(ranks.map(({ dropout }) => dropout.parts.join()));
    expect(parts.size).toBe(size);
  });

  it('tensor parallelism on 4 ranks has the same bits of the logits on all ranks, with dropout, whatever their seeds', () => {
    const [first, ...others] = ranks.map(({ logits }) => logits);
    expect(first?.length).toBe(4 * 8 * 24);
    for (const logits of others) expect(logits).toEqual(first);
  });

  it('communicates two all-reduces a layer and pass, one for the embedding, one for the head', () => {
    for (const { plain, planned: planOf } of ranks) {
      expect(plain).toEqual({ allReduce: 2 * (2 + 2) + 1 + 1 });
      expect(planOf).toEqual(plain);
    }
  });

  it('communicates as much with sequence parallelism, in gathers and scatters', () => {
    // Each layer has 2 + 2 in forward and the same in backward. The embedding adds a scatter and the head a gather.
    for (const { sequence } of ranks) {
      expect(sequence).toEqual({ allGather: 2 * (2 + 2) + 2, reduceScatter: 2 * (2 + 2) + 2 });
    }
  });

  it('tensor parallelism on 4 ranks sends activations in the 16 bits of products, as its plan says', () => {
    for (const { inHalves } of ranks) {
      expect(Object.keys(inHalves.planned).length).toBeGreaterThan(1);
      expect(inHalves.counted).toEqual(inHalves.planned);
    }
  });

  it('tensor parallelism on 4 ranks gathers once more in backward, before each product, where it keeps parts only', () => {
    for (const { sequence, gathersAgain } of ranks) {
      expect(gathersAgain).toEqual({ ...sequence, allGather: 3 * (2 + 2) + 2 + 1 });
    }
  });

  it('tensor parallelism on 4 ranks says which rows of the whole a rank holds', () => {
    ranks.forEach(({ ranges }, rank) =>
      expect(ranges).toEqual(
        [0, 16, 32].map((section) => ({
          start: section + 4 * rank,
          stop: section + 4 * (rank + 1),
        })),
      ),
    );
  });
});
