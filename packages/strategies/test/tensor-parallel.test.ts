import {
  arange,
  fromData,
  LayoutError,
  manualSeed,
  type MeshAxis,
  nn,
  noGrad,
  ones,
  setRank,
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
import { interpreter } from '@shardwise/testing';
import { onRanks, type RankInThread } from '@shardwise/testing/node';
import { beforeAll, describe, expect, it } from 'vitest';
import { valuesOf } from '../../../test/support/model-values.ts';
import { failureOf } from './failure-of.ts';
import {
  batchOf,
  sizes,
  TiedGpt,
  tiedSequenceStyles,
  tiedStyles,
  type Training,
  trainings,
} from './ranks/tensor-parallel-models.ts';

beforeAll(() => {
  setRank({ device: interpreter() });
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
  it('says which dim of each parameter is cut, and nothing of the others', () => {
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

  it('says in what products compute', () => {
    const mixedPrecision = { computeDtype: 'bf16' } as const;
    const strategy = tensorParallel({ up: colwiseParallel() }, { mixedPrecision });
    const plan = strategy.plan(specsOf(new Pair()), tp(3));
    expect(plan.autocast).toEqual({ dtype: 'bf16', outputDtype: 'f32' });
    expect(explain(plan)).toContain('; products in bf16');
  });

  it('prints as a table', () => {
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

const size = 4;

/** Runs `body` as each of the 4 ranks that divide the layers. */
function onParts<T>(body: (rank: RankInThread) => T | Promise<T>): Promise<readonly T[]> {
  return onRanks(size, body, { axes: [{ name: 'tp', size }] });
}

function expectClose(found: readonly number[], expected: readonly number[], digits: number): void {
  expect(found).toHaveLength(expected.length);
  for (const [index, value] of expected.entries()) {
    expect(found[index]).toBeCloseTo(value, digits);
  }
}

/** The losses of Megatron's test, and the sum of their gradient on this rank. */
async function crossEntropyOfMegatron(
  labelSmoothing = 0,
): Promise<{ readonly losses: readonly number[]; readonly gradientSum: number }> {
  // Rows with the values 0 … 7 repeated, 32 classes per rank. The targets are 0, 2, … 30.
  const rows = Float32Array.from({ length: 16 * 32 }, (_, index) => index % 8);
  const logits = fromData(rows, [16, 32], 'f32').requiresGrad_();
  const classes = Int32Array.from({ length: 16 }, (_, row) => 2 * row);
  const losses = vocabParallelCrossEntropy(logits, fromData(classes, [16], 'i32'), {
    reduction: 'none',
    labelSmoothing,
  });
  losses.sum().backward();
  const gradientSum = (await logits.grad?.sum().item()) ?? Number.NaN;
  return { losses: await valuesOf(losses), gradientSum };
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

class Perceptron extends nn.Module {
  readonly up = new nn.Linear(2, 4);
  readonly down = new nn.Linear(4, 2);

  /** Shape: x [B, 2] -> []. */
  forward(x: Tensor): Tensor {
    return this.down.forward(this.up.forward(x).relu()).square().mean();
  }
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

/** The number of messages, by what is said of each. */
type Counts = Record<string, number>;

function countOf(keys: readonly string[]): Counts {
  const counts: Counts = {};
  for (const key of keys) counts[key] = (counts[key] ?? 0) + 1;
  return counts;
}

interface Message {
  readonly operation: string;
  /** The bytes of the input or the output, whichever is larger: for a gather or scatter, of the whole tensor. */
  readonly bytes: number;
}

/** The bytes of an activation: B · T · C elements of 4 bytes. */
const activationBytes: number = 4 * 8 * 16 * 4;

const isActivation = ({ bytes }: Message): boolean => bytes === activationBytes;
const operationOf = ({ operation }: Message): string => operation;

function trainingOf(name: string): Training {
  return trainings[name] ?? expect.fail(name);
}

/** Returns the messages of a forward and a backward pass. */
async function messagesOf({ build, loss, styles }: Training, options = {}): Promise<Message[]> {
  const parallel = await parallelize(build(), tensorParallel(styles, options));
  const { ids, targets } = batchOf(0);
  const result = loss(parallel.forward(ids), targets);
  result.backward();
  const messages: Message[] = [];
  const stop = subscribe(({ category, name, bytes = 0 }) => {
    if (category !== 'collective') return;
    messages.push({ operation: name, bytes });
  });
  await result.item();
  stop();
  return messages;
}

/** Returns the same messages from the plan. */
function plannedMessagesOf({ build, styles }: Training, options = {}): readonly Message[] {
  const plan = planFor(build(), tensorParallel(styles, { tokens: 4 * 8, ...options }));
  return collectivesOf(plan).filter(({ when }) => when !== 'start');
}

describe('tensor parallelism on 4 ranks', () => {
  it.each([
    ['training', false],
    ['evaluation', true],
  ])(
    'says on every rank that ranks of layers were given different batches, after a pass of %s',
    async (_, evaluates) => {
      await onParts(async ({ rank }) => {
        const styles = { up: colwiseParallel(), down: rowwiseParallel() };
        const parallel = await parallelize(new Perceptron(), tensorParallel(styles));
        const train = async (own: number): Promise<void> => {
          const loss = parallel.forward(tensor([[1, own]]));
          loss.backward();
          await loss.item();
        };
        if (evaluates) {
          await train(0);
          await train(0);
          await noGrad(() => parallel.forward(tensor([[1, rank]]))).item();
        } else await train(rank);
        const failure = await failureOf(train(0));
        expect(failure?.code).toBe('COLLECTIVE_MISMATCH');
        expect(failure?.message).toMatch(
          /^another pass of a model whose layers the ranks of 'tp' shard: an earlier batch of rank 1 of 'tp' was another one than that of rank 0\. Give all ranks of 'tp' the same batches/,
        );
      });
    },
  );

  it.each([[[3, 3]], [[1, 3, 3]], [[8, 3, 3]], [[2, 8, 1, 3]]])(
    'gives each rank the part of an attention mask of shape %j that its heads read, and the mask its whole gradient',
    async (shape) => {
      const values = Float32Array.from({ length: 2 * 3 * 8 }, (_, index) => Math.cos(index * 2));
      const inputs = (): Tensor => fromData(values.slice(), [2, 3, 8], 'f32');
      const trained = async (loss: Tensor, { grad }: nn.Parameter): Promise<number[]> => [
        await loss.item(),
        ...(await valuesOf(grad ?? expect.fail('no gradient'))),
      ];
      manualSeed(2);
      const alone = new Biased(shape);
      const loss = alone.forward(inputs());
      loss.backward();
      const expected = await trained(loss, alone.mask);
      await onParts(async () => {
        manualSeed(2);
        const styles = { attention: headParallel({ numHeads: 8, keyHeads: 4 }) };
        const parallel = await parallelize(new Biased(shape), tensorParallel(styles));
        const loss = parallel.forward(inputs());
        loss.backward();
        expectClose(await trained(loss, parallel.module.mask), expected, 6);
      });
    },
  );

  it("has the cross-entropy of Megatron's test, and its gradient, without gathered logits", async () => {
    const sums = await onParts(async () => {
      const { losses, gradientSum } = await crossEntropyOfMegatron();
      const expected = losses.map((_, row) => 10.2309 - 2 * (row % 4));
      expectClose(losses, expected, 4);
      return gradientSum;
    });
    // Softmax minus one for the target sums to 0 over all classes. All targets are on rank 0.
    expect(sums.reduce((sum, each) => sum + each)).toBeCloseTo(0, 4);
    for (const sum of sums.slice(1)) expect(sum).toBeCloseTo(16 / size, 4);
  });

  it("smooths labels as Megatron's, with the gradient of it", async () => {
    // Corresponds to Megatron's `label_smoothing` of 0.1 over 128 classes, which spreads it over the 127 other classes.
    const smoothing = (0.1 * 128) / 127;
    await onParts(async ({ rank }) => {
      const { losses, gradientSum } = await crossEntropyOfMegatron(smoothing);
      // The logits are 0 to 7 repeated, so their mean is 3.5. The logits of the targets are 0, 2, 4 and 6.
      const expected = losses.map(
        (_, row) => 10.2309 - (1 - smoothing) * 2 * (row % 4) - 3.5 * smoothing,
      );
      expectClose(losses, expected, 4);
      // The gradient is softmax, minus the target's share on rank 0, minus an even share of the rest on all ranks.
      const targets = rank === 0 ? 16 * (1 - smoothing) : 0;
      expect(gradientSum).toBeCloseTo(16 / size - targets - (16 * smoothing) / size, 4);
    });
  });

  it('smooths labels and ignores targets as the cross-entropy of one rank', async () => {
    const options = { reduction: 'none', labelSmoothing: 0.2 } as const;
    const classes = (): Tensor => fromData(Int32Array.of(5, -100, 0), [3], 'i32');
    /** Shape: [3, 8], of which a rank has 2 columns. */
    const logits = (): Tensor => arange(24).to('f32').sin().reshape([3, 8]);
    const expected = await valuesOf(nn.functional.crossEntropy(logits(), classes(), options));
    await onParts(async ({ rank }) => {
      const own = logits().slice(1, 2 * rank, 2 * (rank + 1));
      expectClose(await valuesOf(vocabParallelCrossEntropy(own, classes(), options)), expected, 5);
    });
  });

  it("reduces and gathers as Megatron's mappings", async () => {
    await onParts(async ({ rank }) => {
      const own = fromData(new Float32Array(4).fill(rank), [4], 'f32');
      const reduced = redistributeOver(own, 'tp', 'partial', 'invariant');
      expect(await valuesOf(reduced)).toEqual([6, 6, 6, 6]);
      expect(await valuesOf(redistributeOver(own, 'tp', 'partial', shard(0)))).toEqual([6]);
      const gathered = redistributeOver(own, 'tp', shard(0), 'invariant');
      expect(await valuesOf(gathered)).toEqual([0, 1, 2, 3].flatMap((r) => [r, r, r, r]));
    });
  });

  it('drops the same elements of what all ranks have, and others of their own parts', async () => {
    const ranks = await onParts(async ({ rank }) => {
      manualSeed(rank);
      const strategy = tensorParallel({ parts: sequenceParallel({ dim: 0 }) });
      const parallel = await parallelize(new TwoDropouts(), strategy);
      const [whole, parts] = parallel.forward(ones([64]));
      return { whole: (await valuesOf(whole)).join(), parts: (await valuesOf(parts)).join() };
    });
    expect(new Set(ranks.map(({ whole }) => whole)).size).toBe(1);
    expect(new Set(ranks.map(({ parts }) => parts)).size).toBe(size);
  });

  it('has the same bits of the logits on all ranks, with dropout, whatever their seeds', async () => {
    const [first, ...others] = await onParts(async ({ rank }) => {
      manualSeed(rank);
      const strategy = tensorParallel({ ...tiedSequenceStyles });
      const parallel = await parallelize(new TiedGpt(0.2), strategy);
      const part = parallel.forward(batchOf(0).ids);
      return valuesOf(redistributeOver(part, 'tp', shard(-1), 'invariant'));
    });
    expect(first).toHaveLength(4 * 8 * 24);
    for (const logits of others) expect(logits).toEqual(first);
  });

  it.each([
    [
      'two all-reduces a layer and pass, one for the embedding, one for the head',
      'a GPT',
      { allReduce: 2 * (2 + 2) + 1 + 1 },
    ],
    // Each layer has 2 + 2 in forward and the same in backward. The embedding adds a scatter and the head a gather.
    [
      'as much with sequence parallelism, in gathers and scatters',
      'a sequence-parallel GPT',
      { allGather: 2 * (2 + 2) + 2, reduceScatter: 2 * (2 + 2) + 2 },
    ],
    [
      'one gather more in backward, before each product, where it keeps parts only',
      'a sequence-parallel GPT that gathers again, whose logits stay in parts',
      { allGather: 3 * (2 + 2) + 2 + 1, reduceScatter: 2 * (2 + 2) + 2 },
    ],
  ])('communicates %s', async (_, name, expected) => {
    await onParts(async () => {
      const messages = await messagesOf(trainingOf(name));
      expect(countOf(messages.filter(isActivation).map(operationOf))).toEqual(expected);
    });
  });

  it('plans as many messages of activations as it sends, if logits stay in parts', async () => {
    await onParts(() => {
      const styles = gptTensorParallel({ heads: 4, logits: 'parts' });
      const planned = plannedMessagesOf({ ...trainingOf('a GPT'), styles });
      expect(countOf(planned.filter(isActivation).map(operationOf))).toEqual({
        allReduce: 2 * (2 + 2) + 1 + 1,
      });
    });
  });

  it('sends activations in the 16 bits of products, as its plan says', async () => {
    await onParts(async () => {
      const training = trainingOf('a GPT whose logits stay in parts');
      const mixedPrecision = { computeDtype: 'bf16' } as const;
      // Those of the embedding are in 32 bits.
      const activationsOf = (messages: readonly Message[]): Counts =>
        countOf(
          messages
            .filter(({ bytes }) => bytes === activationBytes || bytes === activationBytes / 2)
            .map(({ operation, bytes }) => `${operation} of ${bytes}`),
        );
      const planned = activationsOf(plannedMessagesOf(training, { mixedPrecision }));
      expect(Object.keys(planned).length).toBeGreaterThan(1);
      expect(activationsOf(await messagesOf(training, { tokens: 4 * 8, mixedPrecision }))).toEqual(
        planned,
      );
    });
  });

  it('says which rows of the whole a rank holds', async () => {
    await onParts(async ({ rank }) => {
      const { build, styles } = trainingOf('a GPT');
      const { module } = await parallelize(build(), tensorParallel(styles));
      const parameters = new Map(module.namedParameters());
      const weight = parameters.get('blocks.0.attention.qkv.weight') ?? expect.fail();
      const { wholeShape, layout } = weight.part;
      expect([...dimRanges(wholeShape[0] ?? 0, ['tp'], layout, ownPlace)]).toEqual(
        [0, 16, 32].map((section) => ({
          start: section + 4 * rank,
          stop: section + 4 * (rank + 1),
        })),
      );
    });
  });
});
