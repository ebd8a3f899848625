import { createMesh } from '@shardwise/collectives';
import { fromData, manualSeed, nn, optim, setRank, type Tensor } from '@shardwise/core';
import { currentSession } from '@shardwise/core/extend';
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
import type { RankContext } from '@shardwise/testing/ranks';
import { z } from 'zod';
import { join } from '../../../../test/ranks/join.ts';

const features = 8;
const [sequences, tokens] = [4, 6];

/** A model whose ranks may have parts of sequences between its layers. */
export class SequenceModel extends nn.Module {
  first = new nn.Linear(features, features);
  norm = new nn.LayerNorm(features);
  experts: nn.MixtureOfExperts;
  last = new nn.Linear(features, features);

  /** `over` are the mesh axes whose ranks have parts of the same sequences. */
  constructor(over: true | readonly string[]) {
    super();
    this.experts = new nn.MixtureOfExperts(features, 12, 4, {
      balance: { kind: 'megatron', coefficient: 0.1, bySequence: over },
      zLoss: 0.01,
      bias: { rate: 0.01 },
      shared: new nn.Linear(features, features),
    });
  }

  /** Shape: x [B, T, C] -> [B, T, C]. */
  forward(x: Tensor): Tensor {
    const hidden = this.first.forward(x).tanh();
    return this.last.forward(hidden.add(this.experts.forward(this.norm.forward(hidden))));
  }
}

/** Trains for three steps on some of the sequences. Returns the losses. */
export async function train(
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

export const found = z.object({ losses: z.array(z.number()), gathers: z.number() });

export async function main(context: RankContext): Promise<z.infer<typeof found>> {
  const { group } = await join(context);
  const axes = [
    { name: 'dp', size: context.size / 2 },
    { name: 'tp', size: 2 },
  ];
  const mesh = await createMesh(group, axes);
  setRank({ device: currentSession().backend, mesh });
  manualSeed(context.rank);
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
  const count = sequences / (context.size / 2);
  const losses = await train(
    model,
    (x) => parallel.forward(x),
    mesh.coordinate('dp') * count,
    count,
  );
  return { losses, gathers };
}
