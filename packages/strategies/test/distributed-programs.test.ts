import { singleGroup } from '@shardwise/collectives';
import {
  autograd,
  LayoutError,
  LineMesh,
  nn,
  ones,
  setRank,
  tensor,
  type Tensor,
} from '@shardwise/core';
import { allReduce } from '@shardwise/core/extend';
import { distributeTensor, fromLocal, layoutOf } from '@shardwise/strategies';
import { interpreter } from '@shardwise/testing';
import { beforeEach, describe, expect, it } from 'vitest';

const whole = layoutOf([null, null]);
const rows = layoutOf(['tp', null]);
const partial = layoutOf([null, null], ['tp']);
const matrix = (): Tensor =>
  tensor([
    [1, 2],
    [3, 4],
  ]);

async function numbers(x: Tensor | null | undefined): Promise<readonly number[]> {
  return Array.from((await x?.data()) ?? [], Number);
}

beforeEach(() => setRank({ device: interpreter(), mesh: new LineMesh('tp', singleGroup()) }));

describe('a tensor that lies on several ranks is a tensor', () => {
  it('whose shape, dtype, layout and text are those of the whole', () => {
    const x = distributeTensor(matrix(), rows).mul(2);
    expect([x.shape, x.dtype, x.layout]).toEqual([[2, 2], 'f32', rows]);
    expect(x.toString()).toMatch(/^Tensor f32 \[2, 2\], shard\(0: tp\); this rank has\nTensor/);
  });

  it('which functions of modules and losses take', async () => {
    const layer = new nn.Linear(2, 3);
    const x = distributeTensor(matrix(), rows);
    const targets = distributeTensor(tensor([0, 2], 'i32'), layoutOf(['tp']));
    const [weight, bias] = [layer.weight, layer.bias ?? ones([3])];
    const logits = nn.functional.linear(
      x,
      distributeTensor(weight, whole),
      distributeTensor(bias, layoutOf([null])),
    );
    expect(logits.layout).toEqual(rows);
    const loss = nn.functional.crossEntropy(logits, targets).fullTensor();
    const expected = nn.functional.crossEntropy(layer.forward(matrix()), tensor([0, 2], 'i32'));
    expect(await loss.item()).toBeCloseTo(await expected.item(), 6);
  });

  it('that gives gradients to what it was made from, also from a given gradient', async () => {
    const leaf = matrix().requiresGrad_();
    const squares = distributeTensor(leaf, rows).square();
    squares.backward(distributeTensor(ones([2, 2]).mul(3), rows));
    expect(await numbers(leaf.grad)).toEqual([6, 12, 18, 24]);
    const [gradient] = autograd.grad(distributeTensor(leaf, partial).mul(5).sum(), [leaf]);
    expect(await numbers(gradient)).toEqual([5, 5, 5, 5]);
  });

  it('whose gradients hooks and autograd.grad get as distributed tensors', async () => {
    const leaf = matrix().requiresGrad_();
    const x = distributeTensor(leaf, rows);
    const layouts: unknown[] = [];
    x.registerHook((gradient) => {
      layouts.push(gradient.layout);
      return gradient.mul(10);
    });
    x.square().sum().backward();
    expect(layouts).toEqual([rows]);
    expect(await numbers(leaf.grad)).toEqual([20, 40, 60, 80]);
    const y = distributeTensor(leaf, rows);
    const [gradient] = autograd.grad(y.mul(4).sum(), [y]);
    expect(gradient?.layout).toEqual(rows);
    expect(await numbers(gradient?.fullTensor())).toEqual([4, 4, 4, 4]);
  });

  it('whose values are read like any others, if every rank has all of them', async () => {
    expect(await distributeTensor(matrix(), whole).sum().item()).toBe(10);
    expect(await numbers(distributeTensor(matrix(), whole).mul(2))).toEqual([2, 4, 6, 8]);
  });
});

describe('a program cannot take a part for the whole', () => {
  it('by reading its values', async () => {
    const x = distributeTensor(matrix(), rows);
    await expect(x.data()).rejects.toThrow(
      'the values of a distributed tensor of shape [2, 2]: this rank has its part of shard(0: tp). Use toLocal() for the part, or fullTensor(), on all ranks, for the whole',
    );
    await expect(distributeTensor(matrix(), partial).sum().item()).rejects.toThrow('partial(tp)');
  });

  it.each<[op: string, mix: (x: Tensor) => Tensor]>([
    ['add', (x) => x.add(matrix())],
    ['add', (x) => matrix().add(x)],
    ['matmul', (x) => x.matmul(matrix())],
    ['matmul', (x) => matrix().matmul(x)],
    // A module has parameters of this rank.
    ['matmul', (x) => new nn.Linear(2, 2).forward(x)],
    ['layerNorm', (x) => new nn.LayerNorm(2).forward(x)],
    ['gather', (x) => nn.functional.crossEntropy(x, tensor([0, 1], 'i32'))],
    // The mask comes from this rank's seed.
    ['mul', (x) => new nn.Dropout(0.5).forward(x)],
  ])('by mixing it with a tensor of this rank, in %s', (op, mix) => {
    const mixed = (): Tensor => mix(distributeTensor(matrix(), rows));
    expect(mixed).toThrow(LayoutError);
    expect(mixed).toThrow(
      new RegExp(
        `^${op} at .*distributed-programs\\.test\\.ts:\\d+:\\d+, of a distributed tensor and a tensor of shape \\[[\\d, ]+\\]: a tensor of this rank, which may be another one on each rank`,
      ),
    );
  });

  it('but may mix it with numbers of the program, which are the same on all ranks', () => {
    const x = distributeTensor(matrix(), rows);
    expect(x.add(1).layout).toEqual(rows);
    expect(x.mul(ones([2, 2])).layout).toEqual(rows);
    expect(x.matmul(ones([2, 3])).layout).toEqual(rows);
  });

  it('by collectives, updates and row counts, which are those of one rank', () => {
    const x = distributeTensor(matrix(), rows);
    expect(() => allReduce(x, 'tp')).toThrow('allReduce of a distributed tensor');
    expect(() => x.assign(x)).toThrow('assign of a distributed tensor');
    expect(() => x.requiresGrad_()).toThrow('requiresGrad_ on a tensor computed by distributed');
    expect(() => autograd.jvp((y) => y.mul(2), [x], [ones([2, 2])])).toThrow('vjp() or jvp()');
  });

  it('by methods of distributed tensors on others', () => {
    for (const call of [
      () => matrix().toLocal(),
      () => matrix().fullTensor(),
      () => matrix().redistribute(rows),
    ]) {
      expect(call).toThrow('the parts of [2, 2]: it is not distributed. Use distributeTensor()');
    }
    expect(() => fromLocal(matrix(), layoutOf(['dp', null]))).toThrow("the axis 'dp'");
  });
});
