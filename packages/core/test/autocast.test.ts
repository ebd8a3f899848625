import { interpreter } from '@shardwise/testing';
import { beforeEach, describe, expect, it } from 'vitest';
import {
  autocast,
  autograd,
  type DType,
  fromData,
  full,
  manualSeed,
  nn,
  noGrad,
  ones,
  optim,
  randn,
  setRank,
  Tensor,
  tensor,
} from '../src/index.ts';
import { ops } from '../src/graph/ops/ops.ts';
import { checkpoint } from '../src/nn/checkpoint.ts';

beforeEach(() => {
  setRank({ device: interpreter() });
  manualSeed(0);
});

/** 1 + 2^-9 lies between 1 and the next bf16 number, 1 + 2^-7, and is nearer to 1. */
const fine = 1 + 2 ** -9;

function opsOf(policy: 'lower' | 'f32'): string[] {
  return Object.entries(ops)
    .filter(([, { autocast: own }]) => own === policy)
    .map(([op]) => op);
}

describe('autocast', () => {
  it('lowers products, and has norms, softmax and sums in f32; every other op takes what it is given', () => {
    expect(opsOf('lower')).toEqual(
      ['matmul', 'conv2d', 'conv2dInput', 'conv2dWeight'].concat([
        'groupedMatmul',
        'groupedMatmulWeight',
      ]),
    );
    expect(opsOf('f32')).toEqual(
      ['sum', 'cumsum'].concat(
        ['softmax', 'softmaxGrad', 'logSoftmax', 'logSoftmaxGrad'],
        ['layerNorm', 'layerNormInputGrad', 'layerNormWeightGrad'],
        ['rmsNorm', 'rmsNormInputGrad', 'rmsNormWeightGrad'],
      ),
    );
  });

  it('rounds the operands of a product, sums in f32, and rounds the sum once', async () => {
    // The operands round to 1. If the sum were rounded after each term, it would stop at 256.
    const product = autocast({}, () => full([1, 513], fine).matmul(full([513, 1], fine)));
    expect(product.dtype).toBe('bf16');
    expect(await product.item()).toBe(512);
    const inHalf = autocast({ dtype: 'f16' }, () => full([1, 513], fine).matmul(ones([513, 1])));
    expect(inHalf.dtype).toBe('f16');
    expect(await inHalf.item()).toBe(514);
  });

  it('adds the bias of a layer before the one rounding', async () => {
    // 256 + 1 rounds to 256 in bf16, while 256 + 2 is representable. The bias must therefore be added to the unrounded
    // sum.
    const y = autocast({}, () =>
      nn.functional.linear(full([1, 257], 1), full([1, 257], 1), tensor([1])),
    );
    expect(y.dtype).toBe('bf16');
    expect(await y.item()).toBe(258);
    const image = autocast({}, () =>
      nn.functional.conv2d(full([1, 257, 1, 1], 1), full([1, 257, 1, 1], 1), tensor([1])),
    );
    expect(await image.item()).toBe(258);
  });

  it('has no sum of bf16 rounded on its way, nor a vector product', async () => {
    const many = full([1000], 1, 'bf16');
    const [sum, mean, dot] = autocast({}, () => [
      many.sum(),
      many.mul(fine).mean(),
      many.matmul(many),
    ]);
    expect([sum?.dtype, mean?.dtype, dot?.dtype]).toEqual(['f32', 'f32', 'bf16']);
    expect(await sum?.item()).toBe(1000);
    expect(await dot?.item()).toBe(1000);
  });

  it('leaves f64, integers and bools alone, and what is outside of it', async () => {
    const seen: DType[] = [];
    autocast({}, () => {
      const weight = randn([5, 3]);
      const rows = nn.functional.embedding(tensor([4, 0], 'i32'), weight);
      const where = rows.gt(0).where(rows, 0);
      seen.push(rows.dtype, where.dtype, tensor([3, 4], 'i32').sum().dtype, rows.to('f64').dtype);
    });
    expect(seen).toEqual(['f32', 'f32', 'i32', 'f64']);
    expect(ones([2, 2]).matmul(ones([2, 2])).dtype).toBe('f32');
  });

  it('is what the innermost says, and ends with its body, also where that throws', () => {
    const product = (): DType => ones([2, 2]).matmul(ones([2, 2])).dtype;
    const seen = autocast({}, () => [
      product(),
      autocast({ dtype: 'f16' }, product),
      autocast({ enabled: false }, product),
      noGrad(product),
      product(),
    ]);
    expect(seen).toEqual(['bf16', 'f16', 'f32', 'bf16', 'bf16']);
    expect(() => autocast({}, () => ones([2, 3]).matmul(ones([2, 3])))).toThrow('inner sizes');
    expect(product()).toBe('f32');
  });

  it('has gradients in the dtypes of the forward pass, whether backward is called inside of it or not', async () => {
    const gradients: (readonly number[])[] = [];
    for (const inside of [true, false]) {
      const weight = tensor([[fine, 3]]).requiresGrad_();
      const loss = (): Tensor =>
        tensor([[fine], [2]])
          .matmul(weight)
          .square()
          .sum();
      if (inside) autocast({}, () => loss().backward());
      else autocast({}, loss).backward();
      expect(weight.grad?.dtype).toBe('f32');
      gradients.push(Array.from((await weight.grad?.data()) ?? [], Number));
    }
    // The gradient is d/dw of (1 w)² + (2 w)². The operands are 1 and 3 in bf16.
    expect(gradients).toEqual([
      [10, 30],
      [10, 30],
    ]);
    const x = tensor([[fine]]).requiresGrad_();
    const [gradient] = autocast({}, () => autograd.grad(x.matmul(x).sum(), [x]));
    expect(await gradient?.item()).toBe(2);
  });

  it('makes a checkpointed part again as it was', async () => {
    const layer = new nn.Linear(4, 4);
    const x = randn([3, 4]);
    const gradientOf = async (forward: () => Tensor): Promise<unknown> => {
      layer.zeroGrad();
      autocast({}, () => forward().sum()).backward();
      return layer.weight.grad?.data();
    };
    const kept = await gradientOf(() => layer.forward(x).gelu());
    expect(await gradientOf(() => checkpoint(() => layer.forward(x).gelu()))).toEqual(kept);
  });

  it('is not there for the update of an optimizer, nor for parameters', async () => {
    const weight = new nn.Parameter(Float32Array.of(fine, fine, fine, fine), [2, 2]);
    const step = async (within: (body: () => void) => void): Promise<unknown> => {
      weight.assign(
        fromData(
          Float32Array.of(1, 2, 3, 4).map((x) => x * fine),
          [2, 2],
          'f32',
        ),
      );
      const own = new optim.Muon([weight], { lr: 0.1, weightDecay: 0 });
      weight.zeroGrad();
      weight.square().sum().backward();
      within(() => own.buildStep());
      return weight.data();
    };
    const plain = await step((body) => body());
    expect(await step((body) => autocast({}, body))).toEqual(plain);
    expect(weight.dtype).toBe('f32');
  });

  it.each([
    ['bf16', true],
    ['f16', false],
  ] as const)('has in %s products beyond 65504: %s', async (dtype, isFinite) => {
    const weight = new nn.Parameter(Float32Array.of(300), [1, 1]);
    const optimizer = new optim.SGD([weight], { lr: 2 ** -16 });
    const scaler = new optim.DynamicLossScaler({ hysteresis: 1 });
    const before = scaler.lossScale;
    const loss = autocast({ dtype }, () =>
      tensor([[300]])
        .matmul(weight)
        .mean(),
    );
    scaler.scale(loss).backward();
    // The optimizer skips a step whose values overflow in f16. The gradient of 300 times the scale overflows too.
    expect(await scaler.step(optimizer)).toBe(isFinite);
    scaler.update();
    expect(Number.isFinite(await loss.item())).toBe(isFinite);
    expect(scaler.lossScale < before).toBe(!isFinite);
    expect((await weight.item()) < 300).toBe(isFinite);
  });

  it('runs every layer with weights', async () => {
    const layers: readonly (readonly [nn.Module & { forward(x: Tensor): unknown }, Tensor])[] = [
      [new nn.LSTM(3, 4), randn([2, 5, 3])],
      [new nn.GRU(3, 4), randn([2, 5, 3])],
      [new nn.MultiheadAttention(4, 2), randn([2, 5, 4])],
      [new nn.TransformerEncoderLayer(4, 2), randn([2, 5, 4])],
      [new nn.Conv1d(2, 3, 2), randn([2, 2, 5])],
      [new nn.Conv3d(2, 3, 2), randn([2, 2, 3, 3, 3])],
      [new nn.ConvTranspose2d(2, 3, 2), randn([2, 2, 3, 3])],
      [new nn.GroupNorm(1, 2), randn([2, 2, 3])],
      [new nn.RMSNorm(3), randn([2, 3])],
    ];
    for (const [layer, x] of layers) {
      const found = autocast({}, () => layer.forward(x));
      const result = found instanceof Tensor ? found : Object.values(found ?? {})[0];
      expect(result, layer.constructor.name).toBeInstanceOf(Tensor);
      if (!(result instanceof Tensor)) continue;
      result.square().mean().backward();
      for (const [name, parameter] of layer.namedParameters()) {
        expect(parameter.grad?.dtype, `${layer.constructor.name}.${name}`).toBe('f32');
      }
      expect(Number.isFinite(await result.to('f32').sum().item())).toBe(true);
    }
  });

  it('refuses an async body, and options that it does not have', () => {
    expect(() => autocast({}, async () => ones([1]))).toThrow(
      /autocast with a body that returns a promise/,
    );
    expect(() => autocast({ dtype: 'f32' as 'f16' }, () => 1)).toThrow(
      /autocast with dtype: 'f32'/,
    );
    expect(() => autocast({ type: 'bf16' } as object, () => 1)).toThrow(
      /the option type.*Write dtype/s,
    );
  });

  it('takes a half tensor that was widened as it was', async () => {
    const x = fromData(Uint16Array.of(0x7fc1, 0x3f81), [1, 2], 'bf16');
    const back = x.to('f32').to('bf16');
    expect(await back.data()).toEqual(Uint16Array.of(0x7fc1, 0x3f81));
  });
});
