import { manualSeed, nn, type Tensor, tensor } from '@shardwise/core';
import {
  colwiseParallel,
  compose,
  fsdp,
  parallelize,
  pipeline,
  rowwiseParallel,
  type StrategyWithLoss,
  tensorParallel,
} from '@shardwise/strategies';
import { describeDifference } from '@shardwise/testing';
import { onRanks } from '@shardwise/testing/node';
import { describe, expect, it } from 'vitest';

class Block extends nn.Module {
  readonly up = new nn.Linear(4, 8);
  readonly down = new nn.Linear(8, 4);

  /** Shape: x [B, 4] -> [B, 4]. */
  forward(x: Tensor): Tensor {
    return x.add(this.down.forward(this.up.forward(x).gelu()));
  }
}

class Blocks extends nn.Module {
  readonly blocks = new nn.ModuleList([new Block(), new Block()]);

  /** Shape: x [B, 4] -> [B, 4]. */
  forward(x: Tensor): Tensor {
    return [...this.blocks].reduce((y, block) => block.forward(y), x);
  }
}

const loss = (output: Tensor, targets: Tensor): Tensor => output.sub(targets).square().mean();
const rows = 4;
const numbers = (of: (value: number) => number): Tensor =>
  tensor(
    Array.from({ length: rows }, (_, row) => [0, 1, 2, 3].map((column) => of(4 * row + column))),
  );

const layers = tensorParallel({
  'blocks.*.up': colwiseParallel(),
  'blocks.*.down': rowwiseParallel(),
});
const stages = pipeline({ cut: ['blocks.1'], microbatches: 2, loss });

interface Gradient {
  readonly shape: readonly number[];
  readonly values: readonly number[];
}
type Gradients = Readonly<Record<string, Gradient | null>>;

/** Reads the gradient of every parameter, on all ranks. */
async function gradientsOf(model: nn.Module): Promise<Gradients> {
  const found: Record<string, Gradient | null> = {};
  for (const [name, { grad }] of model.namedParameters()) {
    const values = await grad?.data();
    found[name] = grad && { shape: grad.shape, values: Array.from(values ?? [], Number) };
  }
  return found;
}

async function alone(): Promise<Gradients> {
  manualSeed(3);
  const model = new Blocks();
  loss(model.forward(numbers(Math.sin)), numbers(Math.cos)).backward();
  return gradientsOf(model);
}

async function inStages(strategy: StrategyWithLoss<Tensor, [targets: Tensor]>): Promise<Gradients> {
  manualSeed(3);
  const model = new Blocks();
  const parallel = await parallelize(model, strategy);
  parallel.forward(numbers(Math.sin), numbers(Math.cos)).backward();
  return gradientsOf(model);
}

describe('the gradient of a parameter of a layer that ranks share, in a pipeline', () => {
  it.each<[string, () => StrategyWithLoss<Tensor, [targets: Tensor]>, batches: number]>([
    ['tensor parallelism', () => compose(layers, stages), 1],
    ['tensor parallelism and FSDP', () => compose(layers, stages, fsdp()), 2],
  ])('is the whole one on the ranks of its stage, by %s', async (_, strategy, batches) => {
    const [expected = {}] = await onRanks(1, alone);
    const axes = [
      { name: 'pp', size: 2 },
      { name: 'dp', size: batches },
      { name: 'tp', size: 2 },
    ];
    const size = axes.reduce((product, axis) => product * axis.size, 1);
    const ranks = await onRanks(
      size,
      async ({ mesh }) => ({
        stage: mesh.coordinate('pp'),
        found: await inStages(strategy()),
      }),
      { axes },
    );
    for (const { stage, found } of ranks) {
      expect(Object.keys(found)).toEqual(Object.keys(expected));
      for (const [name, gradient] of Object.entries(found)) {
        if (!name.startsWith(`blocks.${stage}.`)) {
          expect(gradient, `${name} on stage ${stage}`).toBeNull();
          continue;
        }
        const whole = expected[name] ?? expect.fail(name);
        expect(gradient?.shape, name).toEqual(whole.shape);
        const difference = describeDifference(gradient?.values ?? [], whole.values, {
          rtol: 1e-5,
          atol: 1e-6,
        });
        expect(difference, `${name} on stage ${stage}`).toBeUndefined();
      }
    }
  });
});
