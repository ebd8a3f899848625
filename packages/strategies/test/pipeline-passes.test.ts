import { singleGroup } from '@shardwise/collectives';
import { LineMesh, manualSeed, nn, optim, setRank, tensor, type Tensor } from '@shardwise/core';
import { parallelize, pipeline, type PlannedModelWithLoss } from '@shardwise/strategies';
import { interpreter } from '@shardwise/testing';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';

beforeEach(() => setRank({ device: interpreter(), mesh: new LineMesh('pp', singleGroup()) }));

class Classes extends nn.Module {
  readonly tokens = new nn.Embedding(8, 4);
  readonly hidden = new nn.Linear(4, 64);
  readonly head = new nn.Linear(64, 8);

  /** Shape: ids i32 [B] -> [B, 8]. */
  forward(ids: Tensor): Tensor {
    return this.head.forward(this.hidden.forward(this.tokens.forward(ids)).gelu());
  }
}

type Piped = PlannedModelWithLoss<Classes, [ids: Tensor], Tensor, [targets: Tensor]>;

async function piped(): Promise<{ model: Piped; optimizer: optim.SGD }> {
  manualSeed(1);
  const model: Piped = await parallelize(
    new Classes(),
    pipeline({
      schedule: 'interleaved1f1b',
      microbatches: 2,
      cut: ['hidden'],
      loss: (logits: Tensor, targets: Tensor) => nn.functional.crossEntropy(logits, targets),
    }),
  );
  return { model, optimizer: new optim.SGD(model.module.parameters(), { lr: 0.1 }) };
}

const ids = (...values: readonly number[]): Tensor => tensor([...values], 'i32');

describe('a pass that fails', () => {
  it('a pass that fails throws the first cause, once, and the next pass trains as if it had not been', async () => {
    const [{ model, optimizer }, reference] = [await piped(), await piped()];
    for (const wrong of [99, 77]) model.forward(ids(1, wrong), ids(1, 2)).backward();
    await expect(optimizer.step()).rejects.toThrow(/99/);
    const losses: number[] = [];
    for (const each of [{ model, optimizer }, reference]) {
      each.optimizer.zeroGrad();
      const loss = each.model.forward(ids(1, 2), ids(1, 2));
      loss.backward();
      await each.optimizer.step();
      losses.push(await loss.item());
      losses.push(...Array.from(await each.model.module.head.weight.data(), Number));
    }
    const middle = losses.length / 2;
    expect(losses.slice(0, middle)).toEqual(losses.slice(middle));
  });

  it('a pass that fails is the cause of whatever reads its loss', async () => {
    const { model, optimizer } = await piped();
    const loss = model.forward(ids(1, 99), ids(1, 2));
    loss.backward();
    await expect(optimizer.step()).rejects.toThrow(/99/);
    await expect(loss.item()).rejects.toThrow(/99/);
  });
});

describe('what a pass frees itself', () => {
  afterEach(() => {
    vi.unstubAllGlobals();
  });

  /**
   * Counts the array buffers of at least 1 MiB. They exist only to tell the garbage collector their size, and all
   * tensors here are smaller.
   */
  function countWeights(): { count: number } {
    const found = { count: 0 };
    const construct = (target: typeof ArrayBuffer, [bytes]: [number]): ArrayBuffer => {
      if (bytes >= 1024 * 1024) found.count += 1;
      return new target(bytes);
    };
    vi.stubGlobal('ArrayBuffer', new Proxy(ArrayBuffer, { construct }));
    return found;
  }

  it('what a pass frees itself does not call the garbage collector', async () => {
    const { model, optimizer } = await piped();
    const batch = Array.from({ length: 2048 }, (_, row) => row % 8);
    const weights = countWeights();
    for (let step = 0; step < 3; step++) {
      optimizer.zeroGrad();
      model.forward(ids(...batch), ids(...batch)).backward();
      await optimizer.step();
    }
    expect(weights.count).toBe(0);
  });
});

/** A model that calls some of its layers, in any order. */
class Chosen extends nn.Module {
  readonly layers = new nn.ModuleList([0, 1, 2].map(() => new nn.Linear(2, 2)));
  readonly #order: readonly number[];

  constructor(order: readonly number[]) {
    super();
    this.#order = order;
  }

  /** Shape: x [B, 2] -> []. */
  forward(x: Tensor): Tensor {
    const layers = [...this.layers];
    const called = this.#order.flatMap((index) => layers[index] ?? []);
    return called.reduce((y, layer) => layer.forward(y), x).mean();
  }
}

describe('a forward pass that does not call the cuts in their order', () => {
  it.each<[string, readonly number[], string]>([
    [
      'two of them the other way round',
      [0, 2, 1],
      "a pipeline cut at 'layers.2': it is called before 'layers.1', the cut before it. Give the cuts in the order",
    ],
    [
      'all but the first one',
      [0, 2],
      "a pipeline cut at 'layers.1': the forward pass did not call it. Cut at modules that every forward pass calls",
    ],
    [
      'all but the last one',
      [0, 1],
      "a pipeline cut at 'layers.2': the forward pass did not call it. Cut at modules that every forward pass calls",
    ],
  ])('is refused by the cut that is at fault: %s', async (_, order, message) => {
    const cut = ['layers.1', 'layers.2'];
    const strategy = pipeline({ schedule: 'interleaved1f1b', microbatches: 2, cut });
    const model = await parallelize(new Chosen(order), strategy);
    expect(() => model.forward(tensor([1, 2, 3, 4]).reshape([2, 2]))).toThrow(message);
  });
});
