import { cpu } from '@shardwise/backend-cpu';
import { createMesh, createThreadsWorld, joinThreadsWorld } from '@shardwise/collectives';
import {
  autocast,
  type DType,
  fromData,
  LineMesh,
  manualSeed,
  nn,
  setRank,
  type Strategy,
  type Tensor,
} from '@shardwise/core';
import {
  colwiseParallel,
  compose,
  ddp,
  fsdp,
  type MixedPrecision,
  parallelize,
  pipeline,
  rowwiseParallel,
  type StrategyWithLoss,
  tensorParallel,
  zero,
} from '@shardwise/strategies';
import { beforeAll, describe, expect, it } from 'vitest';

beforeAll(async () => {
  const group = joinThreadsWorld(createThreadsWorld({ size: 1 }), 0);
  setRank({ device: await cpu(), mesh: new LineMesh('dp', group) });
});

/** Records the dtypes in which its layers get their inputs. */
class Net extends nn.Module {
  readonly tokens = new nn.Embedding(5, 3);
  readonly layers = new nn.ModuleList([new nn.Linear(3, 4), new nn.Linear(4, 2)]);
  readonly seen: DType[] = [];

  /** Shape: inputs x [B, 3], ids i32 [B] -> [B, 2], and the ids unchanged. */
  forward({ x, ids }: { x: Tensor; ids: Tensor }): { y: Tensor; ids: Tensor } {
    let y = x.add(this.tokens.forward(ids));
    for (const layer of this.layers) {
      this.seen.push(y.dtype);
      y = layer.forward(y).gelu();
    }
    return { y, ids };
  }
}

const strategies: Readonly<Record<string, (mixedPrecision: MixedPrecision) => Strategy>> = {
  ddp: (mixedPrecision) => ddp({ mixedPrecision }),
  'zero-1': (mixedPrecision) => zero({ stage: 1, mixedPrecision }),
  'zero-2': (mixedPrecision) => zero({ stage: 2, mixedPrecision }),
  'zero-3': (mixedPrecision) => zero({ stage: 3, mixedPrecision }),
  fsdp: (mixedPrecision) => fsdp({ mixedPrecision }),
};

const inputs = (): { x: Tensor; ids: Tensor } => ({
  x: fromData(
    Float32Array.from({ length: 12 }, (_, i) => Math.sin(i)),
    [4, 3],
    'f32',
  ),
  ids: fromData(Int32Array.of(0, 3, 4, 1), [4], 'i32'),
});

/** Computes as PyTorch does: parameters and inputs have `dtype`, and the result of each operation is rounded to it. */
function rounded(model: Net, dtype: DType): Tensor {
  const { x, ids } = inputs();
  let y = x.to(dtype).add(nn.functional.embedding(ids, model.tokens.weight.to(dtype)));
  for (const { weight, bias } of model.layers) {
    y = nn.functional.linear(y, weight.to(dtype), bias?.to(dtype)).gelu();
  }
  return y;
}

async function gradientsOf(model: nn.Module): Promise<number[][]> {
  const gradients: number[][] = [];
  for (const { grad } of model.parameters()) {
    gradients.push(Array.from((await grad?.data()) ?? [], Number));
  }
  return gradients;
}

function build(): Net {
  manualSeed(3);
  return new Net();
}

describe.each(Object.entries(strategies))('%s with inputs that are cast', (_, strategyOf) => {
  it.each(['bf16', 'f16'] as const)('computes in %s, op by op', async (parameterDtype) => {
    const expected = rounded(build(), parameterDtype);
    const policy = { parameterDtype, castForwardInputs: true };
    const parallel = await parallelize(build(), strategyOf(policy));
    const { y, ids } = parallel.forward(inputs());
    expect(parallel.module.seen).toEqual([parameterDtype, parameterDtype]);
    expect(ids.dtype).toBe('i32');
    expect(y.dtype).toBe(parameterDtype);
    expect(await y.data()).toEqual(await expected.data());
  });

  it('has the gradients of the rounded operations, in the dtype of the optimizer', async () => {
    const model = build();
    rounded(model, 'bf16').to('f32').square().mean().backward();
    const expected = await gradientsOf(model);
    const policy = { parameterDtype: 'bf16', castForwardInputs: true, outputDtype: 'f32' } as const;
    const parallel = await parallelize(build(), strategyOf(policy));
    const { y } = parallel.forward(inputs());
    y.square().mean().backward();
    const parameters = parallel.module.parameters();
    expect(parameters.map(({ grad }) => grad?.dtype)).toEqual(parameters.map(() => 'f32'));
    const found = await gradientsOf(parallel.module);
    expect(found).toEqual(expected);
  });

  it('gives its results in outputDtype, whatever they are computed in', async () => {
    for (const castForwardInputs of [true, false]) {
      for (const outputDtype of ['f32', 'bf16', 'f16'] as const) {
        const policy = { parameterDtype: 'bf16', castForwardInputs, outputDtype } as const;
        const parallel = await parallelize(build(), strategyOf(policy));
        const { y, ids } = parallel.forward(inputs());
        expect([y.dtype, ids.dtype]).toEqual([outputDtype, 'i32']);
        const dtype = castForwardInputs ? 'bf16' : 'f32';
        expect(parallel.module.seen).toEqual([dtype, dtype]);
      }
    }
  });
});

describe.each(Object.entries(strategies))('%s with computeDtype', (_, strategyOf) => {
  const products = { computeDtype: 'bf16' } as const;

  it('computes as autocast does, and gives f32', async () => {
    const model = build();
    const { y: expected } = autocast({}, () => model.forward(inputs()));
    expected.to('f32').square().mean().backward();
    const parallel = await parallelize(build(), strategyOf(products));
    const { y, ids } = parallel.forward(inputs());
    y.square().mean().backward();
    expect([expected.dtype, y.dtype, ids.dtype]).toEqual(['bf16', 'f32', 'i32']);
    expect(parallel.module.seen).toEqual(['f32', 'bf16']);
    expect(await y.data()).toEqual(await expected.to('f32').data());
    expect(await gradientsOf(parallel.module)).toEqual(await gradientsOf(model));
    expect(parallel.module.parameters().map(({ part }) => part.dtype)).not.toContain('bf16');
  });

  it('gives its results in outputDtype', async () => {
    const policy = { ...products, outputDtype: 'bf16' } as const;
    const parallel = await parallelize(build(), strategyOf(policy));
    expect(parallel.forward(inputs()).y.dtype).toBe('bf16');
  });

  it('reads parameters of 16 bits as they are stored', async () => {
    const whole = await parallelize(build(), strategyOf(products));
    const half = await parallelize(
      build(),
      strategyOf({ ...products, parameterDtype: 'bf16', reduceDtype: 'f32' }),
    );
    const model = build();
    // The embedding is rounded too, although it is no operand of a product.
    model.tokens.weight.assign(model.tokens.weight.to('bf16').to('f32'));
    const { y: expected } = autocast({}, () => model.forward(inputs()));
    const { y } = half.forward(inputs());
    expect(await y.data()).toEqual(await expected.to('f32').data());
    expect(await whole.forward(inputs()).y.data()).not.toEqual(await y.data());
  });
});

it('tensor parallelism computes as autocast does', async () => {
  const group = joinThreadsWorld(createThreadsWorld({ size: 1 }), 0);
  setRank({ device: await cpu(), mesh: new LineMesh('tp', group) });
  const styles = { 'layers.0': colwiseParallel(), 'layers.1': rowwiseParallel() };
  const strategy = tensorParallel(styles, { mixedPrecision: { computeDtype: 'bf16' } });
  const parallel = await parallelize(build(), strategy);
  const { y } = parallel.forward(inputs());
  const model = build();
  const { y: expected } = autocast({}, () => model.forward(inputs()));
  expect(y.dtype).toBe('f32');
  const [found, wanted] = [await y.data(), await expected.to('f32').data()];
  for (const [i, value] of wanted.entries()) {
    expect(Math.abs(Number(found[i]) - Number(value))).toBeLessThan(2 ** -7);
  }
});

it('a pipeline refuses to cast activations with parameters: a stage does not know what the others cast', async () => {
  const group = joinThreadsWorld(createThreadsWorld({ size: 1 }), 0);
  const axes = [
    { name: 'pp', size: 1 },
    { name: 'dp', size: 1 },
  ];
  setRank({ device: await cpu(), mesh: await createMesh(group, axes) });
  const loss = (y: Tensor): Tensor => y.square().mean();
  const strategyOf = (castForwardInputs: boolean): StrategyWithLoss<Tensor, []> => {
    const mixedPrecision = { parameterDtype: 'bf16', castForwardInputs } as const;
    return compose(pipeline({ microbatches: 1, loss }), fsdp({ mixedPrecision }));
  };
  await expect(parallelize(new nn.Linear(2, 1), strategyOf(true))).rejects.toThrow(
    /castForwardInputs: true.*computeDtype: 'bf16'/,
  );
  const parallel = await parallelize(new nn.Linear(2, 1), strategyOf(false));
  const result = parallel.forward(fromData(Float32Array.of(1, 2), [1, 2], 'f32'));
  result.backward();
  expect(await result.item()).toBeGreaterThanOrEqual(0);
});
