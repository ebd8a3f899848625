import {
  flopsProfiler,
  LineMesh,
  manualSeed,
  nn,
  ones,
  optim,
  setRank,
  type Strategy,
  type Tensor,
  type Work,
} from '@shardwise/core';
import { currentSession } from '@shardwise/core/extend';
import {
  colwiseParallel,
  ddp,
  fsdp,
  parallelize,
  pipeline,
  rowwiseParallel,
  tensorParallel,
  zero,
} from '@shardwise/strategies';
import type { RankContext } from '@shardwise/testing/ranks';
import { join } from '../../../../test/ranks/join.ts';

export const strategyNames = ['ddp', 'zero', 'fsdp', 'tensorParallel', 'pipeline'] as const;

const strategies: Readonly<Record<(typeof strategyNames)[number], () => Strategy>> = {
  ddp,
  zero: () => zero({ stage: 2 }),
  fsdp,
  tensorParallel: () => tensorParallel({ '0': colwiseParallel(), '2': rowwiseParallel() }),
  pipeline: () => pipeline({ microbatches: 2, cut: ['2'], loss }),
};

function loss(output: Tensor): Tensor {
  return output.square().mean();
}

const isShared: ReadonlySet<string> = new Set(['ddp', 'zero', 'fsdp']);
const rows = 8;

/** Returns, for each strategy, the operations of this rank in a training step on 8 rows. */
export async function main(context: RankContext): Promise<Record<string, Work>> {
  const { group } = await join(context);
  const found: Record<string, Work> = {};
  for (const name of group.size === 1 ? [] : strategyNames) {
    const axis = { tensorParallel: 'tp', pipeline: 'pp', ddp: 'dp', zero: 'dp', fsdp: 'dp' }[name];
    setRank({ device: currentSession().backend, mesh: new LineMesh(axis, group) });
    manualSeed(1);
    const model = layers();
    const parallel = await parallelize(model, strategies[name]());
    const optimizer = new optim.SGD(model.parameters(), { lr: 0.1 });
    const profiler = flopsProfiler(parallel, { convention: 'pytorch' });
    profiler.startProfile();
    const x = ones([isShared.has(name) ? rows / group.size : rows, 6]);
    const output = parallel.forward(x);
    (name === 'pipeline' ? output : loss(output)).backward();
    await optimizer.step();
    found[name] = profiler.stopProfile().work;
  }
  return found;
}

function layers(): nn.Sequential {
  return new nn.Sequential(
    new nn.Linear(6, 10),
    new nn.GELU(),
    new nn.Linear(10, 6),
    new nn.Linear(6, 4),
  );
}
