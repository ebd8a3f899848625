import { createMesh, singleGroup } from '@shardwise/collectives';
import {
  allGather,
  allReduce,
  LayoutError,
  nn,
  optim,
  reinterpret,
  setRank,
  type Strategy,
  tensor,
  type Tensor,
} from '@shardwise/core';
import {
  colwiseParallel,
  compose,
  ddp,
  fsdp,
  parallelize,
  pipeline,
  rowwiseParallel,
  sequenceParallel,
  tensorParallel,
  vocabParallelEmbedding,
  zero,
} from '@shardwise/strategies';
import { interpreter } from '@shardwise/testing';
import { beforeEach, describe, expect, test } from 'vitest';

// The errors do not depend on the number of ranks.
beforeEach(async () => {
  const axes = ['dp', 'pp', 'tp'].map((name) => ({ name, size: 1 }));
  setRank({ device: interpreter(), mesh: await createMesh(singleGroup(), axes) });
});

const data = (): Tensor => tensor([[1, 2, 3, 4]]);

/** A model with a norm between the halves of a perceptron. */
class NormInside extends nn.Module {
  readonly up = new nn.Linear(4, 4);
  readonly norm = new nn.LayerNorm(4);
  readonly down = new nn.Linear(4, 4);

  forward(x: Tensor): Tensor {
    return this.down.forward(this.norm.forward(this.up.forward(x)));
  }
}

class Tokens extends nn.Module {
  readonly tokens = new nn.Embedding(3, 2);

  /** Shape: ids i32 [B] -> [B, 2]. */
  forward(ids: Tensor): Tensor {
    return this.tokens.forward(ids);
  }
}

class NormBefore extends NormInside {
  override forward(x: Tensor): Tensor {
    return this.down.forward(this.up.forward(this.norm.forward(x)).relu());
  }
}

const styles = { up: colwiseParallel(), down: rowwiseParallel() };

describe('tensor parallelism', () => {
  test('tensor parallelism refuses a layer whose parameters all ranks have on a part of the features, by its name', async () => {
    const model = await parallelize(new NormInside(), tensorParallel(styles));
    const forward = (): Tensor => model.forward(data());
    expect(forward).toThrow(LayoutError);
    expect(forward).toThrow(/^layerNorm at .*'norm\.weight' that is invariant on the axis 'tp'/u);
  });

  test('tensor parallelism gives what all ranks have alike, and gradients that are so', async () => {
    const model = await parallelize(new NormBefore(), tensorParallel(styles));
    const output = model.forward(data());
    expect(output.node.axisTypes?.on('tp')).toBe('invariant');
    output.square().sum().backward();
    const { norm, up } = model.module;
    expect(norm.weight.grad?.node.axisTypes?.on('tp')).toBe('invariant');
    expect(up.weight.part.grad?.node.axisTypes?.on('tp')).toBe('varying');
    await new optim.SGD(model.module.parameters(), { lr: 0.1 }).step();
  });

  test('knows that ranks with parts of a vocabulary have other gradients, which make the whole one', async () => {
    const embedding = { tokens: vocabParallelEmbedding() };
    const model = await parallelize(new Tokens(), tensorParallel(embedding));
    model
      .forward(tensor([1, 0, 1], 'i32'))
      .sum()
      .backward();
    const { weight } = model.module.tokens;
    expect(weight.part.grad?.node.axisTypes?.on('tp')).toBe('varying');
    await new optim.Adafactor(model.module.parameters()).step();
    expect(await weight.grad?.data()).toEqual(Float32Array.of(1, 1, 2, 2, 0, 0));
  });

  test('beside data parallelism has types on both axes', async () => {
    const model = await parallelize(new NormBefore(), compose(tensorParallel(styles), ddp()));
    const output = model.forward(data());
    expect(output.node.axisTypes?.on('dp')).toBe('varying');
    expect(output.node.axisTypes?.on('tp')).toBe('invariant');
    output.square().sum().backward();
    const { weight } = model.module.up;
    expect(weight.part.grad?.node.axisTypes?.on('dp')).toBe('replicate');
    expect(weight.part.grad?.node.axisTypes?.on('tp')).toBe('varying');
  });
});

describe('data parallelism', () => {
  test('data parallelism refuses an update by a gradient of this rank alone, by the parameter’s name', async () => {
    const model = await parallelize(new NormBefore(), ddp());
    model.noSync(() => model.forward(data()).sum().backward());
    const { weight } = model.module.up;
    const update = (): Tensor => weight.assign(weight.sub(weight.grad?.mul(0.1) ?? 0));
    expect(update).toThrow(/^assign at .*'up\.weight' that is replicate on the axis 'dp'/u);
  });

  test('data parallelism leaves parameters to their rank once it is detached', async () => {
    const model = await parallelize(new NormBefore(), ddp());
    const module = model.detach();
    module.forward(data()).sum().backward();
    await new optim.SGD(module.parameters(), { lr: 0.1 }).step();
    expect(module.up.weight.node.axisTypes).toBeNull();
  });
});

describe('a loss of a model in layers', () => {
  const parts = { up: colwiseParallel() };
  const up = (model: { readonly module: NormInside }): Tensor => model.module.up.forward(data());
  const losses: readonly (readonly [string, (x: Tensor) => Tensor])[] = [
    ['of parts', (x) => nn.functional.crossEntropy(x, tensor([0], 'i32'))],
    ['that each rank has a copy of', (x) => allReduce(x.square().sum(), 'tp')],
    [
      'of logits that each rank uses in its own way',
      (x) => nn.functional.crossEntropy(allGather(x, 'tp', 1), tensor([0], 'i32')),
    ],
  ];
  const half = { parameterDtype: 'f16' } as const;
  const strategies: readonly (readonly [string, () => Strategy])[] = [
    ['alone', () => tensorParallel(parts)],
    ['beside DDP', () => compose(tensorParallel(parts), ddp())],
    ['beside FSDP', () => compose(tensorParallel(parts), fsdp())],
    [
      'beside ZeRO-3 in f16',
      () => compose(tensorParallel(parts), zero({ stage: 3, mixedPrecision: half })),
    ],
  ];
  const cases = losses.flatMap(([loss, of]) =>
    strategies.map(([name, strategy]) => [loss, name, of, strategy] as const),
  );

  test.each(cases)('%s is refused %s', async (_, _name, of, strategy) => {
    const model = await parallelize(new NormInside(), strategy());
    const made = of(up(model));
    const backward = (): void => made.backward();
    expect(backward).toThrow(LayoutError);
    expect(backward).toThrow(/^backward\(\) at .*'up\.\w+'.* one loss.*to: 'invariant'/u);
    allReduce(up(model).sum(), 'tp', { to: 'invariant' }).backward();
    expect(model.module.up.weight.part.grad).not.toBeNull();
  });

  test('of parts is refused in stages', async () => {
    const inStages = pipeline({
      schedule: 'interleaved1f1b',
      microbatches: 1,
      cut: ['norm'],
      loss: (x: Tensor) => x.sum(),
    });
    const styles = { down: colwiseParallel() };
    const model = await parallelize(new NormBefore(), compose(tensorParallel(styles), inStages));
    const loss = model.forward(data());
    expect(() => loss.backward()).toThrow(/^backward\(\) at .*'down\.weight'.* one loss/u);
  });

  test('a loss of a model in layers is any if its gradient is given, and once the model is detached', async () => {
    const model = await parallelize(new NormInside(), tensorParallel({ norm: sequenceParallel() }));
    const { norm } = model.module;
    const own = (): Tensor => reinterpret(norm.weight, 'tp', 'invariant', 'replicate').sum();
    expect(() => own().backward()).toThrow(LayoutError);
    own().backward(tensor(2));
    expect(await norm.weight.grad?.data()).toEqual(Float32Array.of(2, 2, 2, 2));
    const loss = own();
    model.detach();
    loss.backward();
    expect(await norm.weight.grad?.data()).toEqual(Float32Array.of(3, 3, 3, 3));
  });
});
