import { activationBytes, hostPages, nn, ones, setRank, type Tensor } from '@shardwise/core';
import { interpreter } from '@shardwise/testing';
import { beforeAll, describe, expect, it } from 'vitest';

const batch = 5;
const width = 3;
const f32 = Float32Array.BYTES_PER_ELEMENT;

class TwoLayers extends nn.Module {
  readonly first = new nn.Linear(width, 7);
  readonly second = new nn.Linear(7, 2);

  /** Shape: x [B, 3] -> [B, 2]. */
  forward(x: Tensor): Tensor {
    return this.second.forward(this.first.forward(x).tanh());
  }
}

beforeAll(() => setRank({ device: interpreter() }));

describe('activationBytes', () => {
  it('counts what backward reads of forward, and neither inputs nor parameters', () => {
    const model = new TwoLayers();
    const loss = model.forward(ones([batch, width])).sum();
    // Only the tanh is kept. Its gradient reads it, and so does the weight gradient of the second layer.
    expect(activationBytes(loss)).toBe(batch * 7 * f32);
  });

  it('counts nothing for a sum of products with constants', () => {
    const model = new nn.Linear(width, 2);
    expect(activationBytes(model.forward(ones([batch, width])).sum())).toBe(0);
  });

  it('counts what goes in and out of a checkpoint, not what is inside or has left the device', () => {
    const thrice = (x: Tensor): Tensor => x.tanh().tanh().tanh();
    const start = (): Tensor => new nn.Linear(width, 7).forward(ones([batch, width]));
    // Each tanh keeps its result. The checkpoint keeps only its input and the last result.
    expect(activationBytes(thrice(start()).square().sum())).toBe(3 * batch * 7 * f32);
    const x = start();
    const checkpointed = nn.checkpoint(() => thrice(x));
    expect(activationBytes(checkpointed.square().sum())).toBe(2 * batch * 7 * f32);
    const outside = nn.checkpoint(() => thrice(x), { pages: hostPages() });
    expect(activationBytes(outside.square().sum())).toBe(batch * 7 * f32);
  });

  it('leaves no gradient and nothing to compute', async () => {
    const model = new TwoLayers();
    const loss = model.forward(ones([batch, width])).sum();
    activationBytes(loss);
    expect(model.first.weight.grad).toBeNull();
    loss.backward();
    expect(await model.second.bias?.grad?.data()).toEqual(Float32Array.of(batch, batch));
  });
});
