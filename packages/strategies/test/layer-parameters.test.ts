import { singleGroup } from '@shardwise/collectives';
import { LineMesh, nn, ones, type ProcessGroup, setRank, type Tensor } from '@shardwise/core';
import { inLayer, layerParameter } from '@shardwise/strategies';
import { interpreter } from '@shardwise/testing';
import { beforeEach, describe, expect, it } from 'vitest';
import { fieldsOf, withParametersIn } from '../src/modules/parameter-fields.ts';

/** The second of two ranks, which does not communicate. */
const second: ProcessGroup = new Proxy(singleGroup(), {
  get: (group, key): unknown => {
    if (key === 'rank') return 1;
    if (key === 'orderCalls') return undefined;
    return key === 'size' ? 2 : Reflect.get(group, key);
  },
});

/** A layer of [6, 2] weights, of which this rank has the last 3 rows. */
class Layer extends nn.Module {
  weight: nn.Parameter;

  constructor(weight: nn.Parameter) {
    super();
    this.weight = weight;
  }

  forward(x: Tensor): Tensor {
    return x.matmul(this.weight.transpose(0, 1));
  }
}

function sharedWeight(): nn.Parameter {
  return layerParameter(Float32Array.of(1, 2, 3, 4, 5, 6), {
    wholeShape: [6, 2],
    layout: { dims: [['tp'], []], partial: [] },
    dtype: 'f32',
    requiresGrad: true,
  });
}

beforeEach(() => {
  setRank({ device: interpreter(), mesh: new LineMesh('tp', second) });
});

describe('a parameter of a layer that ranks share', () => {
  it('stands for the whole, of which the layer computes with this rank’s part', async () => {
    const weight = sharedWeight();
    expect(weight.shape).toEqual([6, 2]);
    const own = inLayer(weight);
    expect(own.shape).toEqual([3, 2]);
    expect([...(await own.data())]).toEqual([1, 2, 3, 4, 5, 6]);
    expect(own.part).toBe(weight.part);
  });

  it('is itself in a layer whose ranks do not share it, and null if the layer has none', () => {
    const bias = new nn.Parameter(Float32Array.of(1), [1]);
    expect(inLayer(bias)).toBe(bias);
    expect(inLayer(null)).toBeNull();
    const own = inLayer(sharedWeight());
    expect(inLayer(own)).toBe(own);
  });

  it('collects the gradients of the layer in its part', async () => {
    const weight = sharedWeight();
    ones([2, 2]).matmul(inLayer(weight).transpose(0, 1)).sum().backward();
    expect([...((await weight.part.grad?.data()) ?? [])]).toEqual([2, 2, 2, 2, 2, 2]);
  });

  it('is whole for everyone but a layer that runs', () => {
    const weight = sharedWeight();
    const [layer, beside] = [new Layer(weight), new Layer(weight)];
    const fields = fieldsOf(layer, new Set([weight]));
    const shapes = withParametersIn(fields, inLayer, () => [
      layer.weight.shape,
      layer.forward(ones([4, 2])).shape,
      beside.weight.shape,
      weight.shape,
    ]);
    expect(shapes).toEqual([
      [3, 2],
      [4, 3],
      [6, 2],
      [6, 2],
    ]);
    expect(layer.weight).toBe(weight);
  });

  it('is whole again after a layer that has failed', () => {
    const layer = new Layer(sharedWeight());
    const fields = fieldsOf(layer, new Set(layer.parameters()));
    const fail = (): never => {
      throw new RangeError('a wrong input');
    };
    expect(() => withParametersIn(fields, inLayer, fail)).toThrow('a wrong input');
    expect(layer.weight.shape).toEqual([6, 2]);
  });
});
