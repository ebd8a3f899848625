import { fromData, manualSeed, nn, optim, type Tensor } from '@shardwise/core';
import {
  collectivesOf,
  colwiseParallel,
  compose,
  ddp,
  expertParallel,
  parallelize,
  sequenceParallel,
  shard,
  tensorParallel,
} from '@shardwise/strategies';
import { assertAllclose } from '@shardwise/testing';
import { onRanks, type RankInThread } from '@shardwise/testing/node';
import { expect, it } from 'vitest';
import { meanOverRanks } from './as-one-rank.ts';
import { features, SequenceModel } from './ranks/expert-models.ts';

const [sequences, tokens] = [4, 6];

/** Trains for three steps on some of the sequences. Returns the losses. */
async function train(
  model: SequenceModel,
  forward: (x: Tensor) => Tensor,
  first = 0,
  count = sequences,
): Promise<number[]> {
  const optimizer = new optim.AdamW(model.parameters(), { lr: 0.01 });
  const losses: number[] = [];
  for (let step = 0; step < 3; step++) {
    optimizer.zeroGrad();
    const size = tokens * features;
    const data = Float32Array.from({ length: count * size }, (_, index) =>
      Math.sin((first * size + index) * 1.3 + step),
    );
    const x = fromData(data, [count, tokens, features], 'f32');
    const loss = forward(x).sub(x.mul(0.5)).square().mean().add(nn.auxiliaryLoss(model));
    loss.backward();
    nn.updateExpertBias(model);
    await optimizer.step();
    losses.push(await loss.item());
  }
  return losses;
}

async function trainInParts({ rank, size, mesh }: RankInThread) {
  manualSeed(rank);
  const model = new SequenceModel(['tp']);
  const part = shard(1);
  const styles = {
    first: colwiseParallel({ output: part }),
    norm: sequenceParallel(),
    // Shared layers beside the experts get rows.
    'experts.shared': colwiseParallel({ input: shard(-2), output: shard(-2) }),
    last: colwiseParallel({ input: part, output: 'invariant' }),
  };
  const experts = expertParallel({ axis: 'tp', sameTokens: ['tp'], input: part });
  const parallel = await parallelize(model, compose(tensorParallel(styles), experts, ddp()));
  const gathers = collectivesOf(parallel.plan).filter(
    ({ operation, redistribution }) =>
      operation === 'allGather' && redistribution?.module === 'experts',
  ).length;
  const count = sequences / (size / 2);
  const losses = await train(
    model,
    (x) => parallel.forward(x),
    mesh.coordinate('dp') * count,
    count,
  );
  return { losses, gathers };
}

it('experts route the parts of sequences that sequence parallelism gives ranks, and train as on one rank', async () => {
  const [alone = []] = await onRanks(1, () => {
    manualSeed(0);
    const model = new SequenceModel(true);
    return train(model, (x) => model.forward(x));
  });
  const axes = ['dp', 'tp'].map((name) => ({ name, size: 2 }));
  const ranks = await onRanks(4, trainInParts, { axes });
  expect(alone).not.toHaveLength(0);
  const means = meanOverRanks(ranks.map(({ losses }) => losses));
  assertAllclose(means, alone, { rtol: 5e-5, atol: 0 });
  // The layer does not gather tokens that the ranks already have in parts.
  expect(ranks.map(({ gathers }) => gathers)).toEqual([0, 0, 0, 0]);
});
