import { setTimeout } from 'node:timers/promises';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { singleGroup } from '@shardwise/collectives';
import { LineMesh, nn, ones, setRank, type Strategy, type Tensor } from '@shardwise/core';
import type { Node } from '@shardwise/core/extend';
import { fsdp, parallelize, zero } from '@shardwise/strategies';
import { interpreter } from '@shardwise/testing';
import { beforeEach, expect, it } from 'vitest';

setFlagsFromString('--expose-gc');
const collectGarbage: unknown = runInNewContext('gc');

beforeEach(() => setRank({ device: interpreter(), mesh: new LineMesh('dp', singleGroup()) }));

const seen: WeakRef<Node>[] = [];

/** Keeps weak references to the weight nodes that its forward passes read. */
class Watched extends nn.Linear {
  override forward(x: Tensor): Tensor {
    seen.push(new WeakRef(this.weight.node));
    return super.forward(x);
  }
}

class Layers extends nn.Module {
  readonly layers = new nn.ModuleList([new Watched(4, 4), new Watched(4, 4)]);
  readonly head = new Watched(4, 1);

  /** Shape: x [B, 4] -> [B, 1]. */
  forward(x: Tensor): Tensor {
    return this.head.forward([...this.layers].reduce((y, layer) => layer.forward(y), x));
  }
}

const strategies: Readonly<Record<string, () => Strategy>> = {
  'ZeRO-1': () => zero({ stage: 1 }),
  'ZeRO-2': () => zero({ stage: 2 }),
  'ZeRO-3': () => zero({ stage: 3 }),
  FSDP: () => fsdp(),
  'FSDP that keeps parameters': () => fsdp({ reshardAfterForward: false }),
};

it.each(Object.keys(strategies))(
  'forward passes in gradient mode that nobody calls backward() of leave nothing behind: %s',
  async (name) => {
    seen.length = 0;
    const parallel = await parallelize(new Layers(), strategies[name]?.() ?? fsdp());
    for (let pass = 0; pass < 50; pass++) await parallel.forward(ones([2, 4])).data();
    if (typeof collectGarbage !== 'function') throw new TypeError('no gc to call');
    for (let round = 0; round < 3; round++) {
      await setTimeout(0);
      collectGarbage();
    }
    expect(seen).toHaveLength(150);
    const left = seen.filter((reference) => reference.deref() !== undefined);
    // The nodes of the latest pass may be kept for the next one.
    expect(left.length).toBeLessThanOrEqual(6);
  },
);
