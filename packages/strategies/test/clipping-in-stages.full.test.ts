import { manualSeed, nn, optim, type Tensor, tensor } from '@shardwise/core';
import {
  colwiseParallel,
  compose,
  fsdp,
  OptimisticOptimizer,
  parallelize,
  pipeline,
  rowwiseParallel,
  tensorParallel,
} from '@shardwise/strategies';
import { onRanks, type RankInThread } from '@shardwise/testing/node';
import { expect, it } from 'vitest';

/**
 * Norms of all gradients: the root of the sum of squares, that of cubes, the largest value, and the norm by which the
 * optimizer has clipped.
 */
interface Norms {
  sum: number;
  cubes: number;
  largest: number;
  ahead: number;
}

const axes = ['tp', 'dp', 'pp'].map((name) => ({ name, size: 2 }));
const loss = (output: Tensor): Tensor => output.square().mean();
const batch = (): Tensor => tensor([1, 2, 3, 4].map((row) => [row, 1 / row, -row, row * row]));

/**
 * In the first stage, some layers are sharded by output and some by input. The second stage has no layer that is
 * sharded by input.
 */
function build(): nn.Sequential {
  manualSeed(3);
  return new nn.Sequential(...[0, 1, 2, 3].map(() => new nn.Linear(4, 4)));
}

/** Returns the norms. Each belongs to a step that computes its norm together with the update. */
async function normsOf(model: nn.Module, backward: () => void): Promise<Norms> {
  const parameters = model.parameters();
  const optimizer = new optim.SGD(parameters, { lr: 0.1 });
  const clipped = async (normType: number): Promise<number> => {
    optimizer.zeroGrad();
    backward();
    const norm = optim.clipGradNorm(parameters, 0.1, { normType });
    await optimizer.step();
    return norm.item();
  };
  const [sum, cubes, largest] = [await clipped(2), await clipped(3), await clipped(Infinity)];
  const optimistic = new OptimisticOptimizer(optimizer, { maxNorm: 0.1 });
  optimizer.zeroGrad();
  backward();
  await optimistic.step();
  return { sum, cubes, largest, ahead: (await optimistic.verdict()).norm };
}

async function normsInParts({ mesh }: RankInThread): Promise<Norms> {
  const inParts = colwiseParallel({ output: 'invariant' });
  const strategy = compose(
    tensorParallel({ '0': inParts, '1': rowwiseParallel({ input: 'invariant' }), '3': inParts }),
    pipeline({ schedule: 'gpipe', microbatches: 2, cut: ['2'], loss }),
    fsdp(),
  );
  const model = await parallelize(build(), strategy);
  const first = 2 * mesh.coordinate('dp');
  const own = batch().slice(0, first, first + 2);
  return normsOf(model.module, () => model.forward(own).backward());
}

async function normsAlone(): Promise<Norms> {
  const model = build();
  return normsOf(model, () => loss(model.forward(batch())).backward());
}

it('the norm of gradients in three dimensions is that of one rank, also if parameters of one stage are cut in more ways than those of another', async () => {
  const [alone] = await onRanks(1, normsAlone);
  for (const rank of await onRanks(8, normsInParts, { axes })) {
    for (const kind of ['sum', 'cubes', 'largest', 'ahead'] as const)
      expect(rank[kind], kind).toBeCloseTo(alone?.[kind] ?? NaN, 4);
  }
});
