import { setRank, TensorStateError } from '@shardwise/core';
import {
  fromData,
  Gradient,
  gradientHookError,
  type Layout,
  noGrad,
  Parameter,
  ParameterPart,
  type ParameterPartOptions,
  type Placement,
  Tensor,
} from '@shardwise/core/extend';
import { interpreter } from '@shardwise/testing';
import { beforeEach, describe, expect, it } from 'vitest';

beforeEach(() => {
  setRank({ device: interpreter() });
});

const layout: Layout = { dims: [['dp']], partial: [] };

function partOf(
  data: readonly number[] | null,
  options: Partial<ParameterPartOptions> = {},
): ParameterPart {
  const own = data === null ? null : Float32Array.from(data);
  return new ParameterPart(own, [data?.length ?? 2], { wholeShape: [4], layout, ...options });
}

/** A placement on the first of two ranks, of which the second one always has zeros. */
function placementOf(part: ParameterPart): Placement<Tensor> {
  const whole = (own: Tensor): Tensor => own.pad([0], [2]);
  return {
    part,
    dtype: 'f32',
    read: () => whole(new Tensor(part.node)).node,
    wholeOf: (own) => noGrad(() => whole(new Tensor(own))).node,
    partOf: (value) => noGrad(() => new Tensor(value).slice(0, 0, 2)).node,
    hookError: gradientHookError,
  };
}

function shared(part: ParameterPart): Parameter {
  return new Parameter(null, [4], { placement: placementOf(part) });
}

async function numbers(tensor: Tensor | null): Promise<number[] | null> {
  return tensor === null ? null : [...(await tensor.data())].map(Number);
}

const four = (...values: readonly number[]): Tensor =>
  fromData(Float32Array.from(values), [4], 'f32');

describe('a parameter with a placement', () => {
  it('stands for the whole', async () => {
    const parameter = shared(partOf([1, 2]));
    expect(parameter.shape).toEqual([4]);
    expect(await numbers(parameter)).toEqual([1, 2, 0, 0]);
    expect(await numbers(parameter.mul(3))).toEqual([3, 6, 0, 0]);
  });

  it('has the gradient of the whole, of which its part has the part', async () => {
    const part = partOf([1, 2]);
    const parameter = shared(part);
    parameter
      .mul(four(5, 6, 7, 8))
      .sum()
      .backward();
    expect(await numbers(part.grad)).toEqual([5, 6]);
    expect(await numbers(parameter.grad)).toEqual([5, 6, 0, 0]);
    parameter.setGradientNode(four(1, 3, 5, 7).node);
    expect(await numbers(part.grad)).toEqual([1, 3]);
    parameter.zeroGrad();
    expect(part.grad).toBeNull();
  });

  it('stores its part of what is assigned to it', async () => {
    const part = partOf([1, 2]);
    const parameter = shared(part);
    parameter.assign(four(9, 8, 7, 6));
    expect(await numbers(part)).toEqual([9, 8]);
    parameter.store(four(5, 4, 3, 2).node);
    expect(await numbers(part)).toEqual([5, 4]);
  });

  it('trains, is hooked and varies where its part does', () => {
    const part = partOf([1, 2]);
    const parameter = shared(part);
    let calls = 0;
    parameter.registerPostAccumulateGradHook(() => calls++);
    parameter.sum().backward();
    expect(calls).toBe(1);
    parameter.requiresGrad_(false);
    expect([part.requiresGrad, parameter.requiresGrad]).toEqual([false, false]);
    parameter.markVarying(['tp']);
    expect(part.varyingOver).toEqual(['tp']);
    expect(part.layout.varying).toEqual(['tp']);
  });

  it('refuses a hook on the gradient of the whole, which no rank has', () => {
    expect(() => shared(partOf([1, 2])).registerHook((gradient) => gradient)).toThrow(
      'registerHook on a parameter of shape [4]: a strategy that shares it out over the ranks',
    );
  });
});

describe('a part of a parameter', () => {
  it('may be computed from more that the rank keeps', async () => {
    const part = partOf([1, 2, 3, 4], {
      keptWhole: {
        partShape: [2],
        read: (contents) => noGrad(() => new Tensor(contents).slice(0, 0, 2)).node,
        write: (own) => noGrad(() => new Tensor(own).pad([0], [2])).node,
      },
    });
    expect(part.shape).toEqual([2]);
    expect(await numbers(part)).toEqual([1, 2]);
    part.assign(fromData(Float32Array.of(7, 8), [2], 'f32'));
    expect(await numbers(part)).toEqual([7, 8]);
    expect(await numbers(new Tensor(part.contents))).toEqual([7, 8, 0, 0]);
  });

  it('keeps a copy of its values up to date, which is what it stores for forward passes', async () => {
    const kept = fromData(Float32Array.of(0, 0), [2], 'f32').makeResident();
    const part = partOf([1, 2], {
      copy: {
        kept,
        store: (values) => kept.store(noGrad(() => new Tensor(values).neg()).node),
        dispose: () => kept.dispose(),
      },
    });
    expect(part.stored).toBe(kept.contents);
    expect(await numbers(kept)).toEqual([-1, -2]);
    part.assign(fromData(Float32Array.of(3, 4), [2], 'f32'));
    expect(await numbers(kept)).toEqual([-3, -4]);
  });

  it('of another rank is not stored here, and says so when it is read', async () => {
    const elsewhere = new TensorStateError({ asked: 'a', found: 'another rank has it', todo: 'b' });
    const part = partOf(null, { elsewhere });
    part.assign(fromData(Float32Array.of(3, 4), [2], 'f32'));
    await part.realize();
    await expect(part.data()).rejects.toThrow('another rank has it');
  });

  it('collects gradients as it is told', async () => {
    class Doubled extends Gradient {
      override accumulate(gradient: Tensor['node']): void {
        super.accumulate(noGrad(() => new Tensor(gradient).mul(2)).node);
      }
    }
    const part = partOf([1, 2], { gradient: new Doubled() });
    part.sum().backward();
    expect(await numbers(part.grad)).toEqual([2, 2]);
  });
});
