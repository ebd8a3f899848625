import { fromData, nn, type Tensor } from '@shardwise/core';
import type { Layout } from '@shardwise/core/extend';
import { distributeTensor, layoutOf } from '@shardwise/strategies';
import { onRanks } from '@shardwise/testing/node';
import { describe, expect, it } from 'vitest';

/** The first ranks have two rows each, and the third has one. */
const shape = [5, 4];
const values = (): Tensor =>
  fromData(
    Float32Array.from({ length: 20 }, (_, i) => i + 1),
    shape,
    'f32',
  );
const key = (): Tensor => fromData(Int32Array.of(7, 11), [2], 'i32');

interface Dropped {
  readonly output: readonly number[];
  readonly gradient: readonly number[];
}

async function dropped(x: Tensor, drop: (x: Tensor) => Tensor): Promise<Dropped> {
  const leaf = x.requiresGrad_();
  const output = drop(leaf);
  output.square().sum().backward();
  return {
    output: Array.from(await output.data(), Number),
    gradient: Array.from((await leaf.grad?.data()) ?? [], Number),
  };
}

describe('dropout of a distributed tensor, with a key that all ranks have', () => {
  it.each<[string, Layout]>([
    ['in uneven rows', layoutOf(['tp', null])],
    ['in uneven columns', layoutOf([null, 'tp'])],
    ['in copies', layoutOf([null, null])],
    ['in terms of a sum', layoutOf([null, null], ['tp'])],
  ])('drops what one rank drops, forward and backward: %s', async (_, layout) => {
    const [alone] = await onRanks(1, () =>
      dropped(values(), (x) => nn.functional.dropout(x, 0.5, key())),
    );
    expect(alone?.output.filter((each) => each === 0).length).toBeGreaterThan(3);
    const ranks = await onRanks(
      3,
      () =>
        dropped(values(), (x) => {
          const own = distributeTensor(key(), layoutOf([null]));
          return nn.functional.dropout(distributeTensor(x, layout), 0.5, own).fullTensor();
        }),
      { axes: [{ name: 'tp', size: 3 }] },
    );
    for (const rank of ranks) expect(rank).toEqual(alone);
  });
});
