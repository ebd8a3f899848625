import { cpu } from '@shardwise/backend-cpu';
import { createThreadsWorld } from '@shardwise/collectives';
import { fromData, LayoutError, type MeshAxis, nn, setRank, type Strategy } from '@shardwise/core';
import {
  type StylePlan,
  collectivesOf,
  colwiseParallel,
  compose,
  ddp,
  explain,
  fsdp,
  gptTensorParallel,
  headParallel,
  rowwiseParallel,
  tensorParallel,
  vocabParallelEmbedding,
  zero,
} from '@shardwise/strategies';
import { beforeAll, describe, expect, it } from 'vitest';
import { z } from 'zod';
import { runRanks } from '../../../test/support/run-ranks.ts';
import {
  megatronSmoothing,
  observations,
  type Observations,
} from './ranks/tensor-parallel-behaviour.ts';
import { sizes, TiedGpt, tiedStyles, trainings } from './ranks/tensor-parallel-models.ts';
import { testMs, trainingMs } from './time-limits.ts';

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
    const world = createThreadsWorld({ size, arenaBytes: 64 * 1024 * 1024 });
    const url = new URL('./ranks/tensor-parallel-behaviour.ts', import.meta.url);
    const found = await runRanks(size, url, { world, timeoutMs: trainingMs });
    ranks = z.array(observations).length(size).parse(found);
  }, testMs);

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
