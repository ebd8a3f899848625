import {
  type FlopConvention,
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

export const strategyNames = [
  'ddp',
  'zero2',
  'zero3',
  'fsdp',
  'tensorParallel',
  'pipeline',
] as const;
export type StrategyName = (typeof strategyNames)[number];

const strategies: Readonly<Record<StrategyName, () => Strategy>> = {
  ddp,
  zero2: () => zero({ stage: 2 }),
  zero3: () => zero({ stage: 3 }),
  fsdp,
  tensorParallel: () => tensorParallel({ '0.up': colwiseParallel(), '0.down': rowwiseParallel() }),
  pipeline: () => pipeline({ microbatches: 2, cut: ['1'], loss }),
};
const axes = {
  ddp: 'dp',
  zero2: 'dp',
  zero3: 'dp',
  fsdp: 'dp',
  tensorParallel: 'tp',
  pipeline: 'pp',
};

function loss(output: Tensor): Tensor {
  return output.square().mean();
}

const rows = 8;

/** What a rank does in a step, and how it is counted. */
export interface StepWork {
  /** The products of a step. */
  readonly plain: Work;
  /** The products of a step whose block is computed again in the backward pass. */
  readonly recomputed: Work;
  /** The sums and products of elements, too, as DeepSpeed counts them. */
  readonly elements: Work;
}

/** Returns, for each strategy, the operations of this rank in a training step on 8 rows. */
export async function main(context: RankContext): Promise<Partial<Record<StrategyName, StepWork>>> {
  const { group } = await join(context);
  const found: Partial<Record<StrategyName, StepWork>> = {};
  for (const name of group.size === 1 ? [] : strategyNames) {
    setRank({ device: currentSession().backend, mesh: new LineMesh(axes[name], group) });
    const share = axes[name] === 'dp' ? rows / group.size : rows;
    found[name] = {
      plain: await workOf(name, share, 'pytorch', false),
      recomputed: await workOf(name, share, 'pytorch', true),
      elements: await workOf(name, share, 'deepspeed', false),
    };
  }
  return found;
}

async function workOf(
  name: StrategyName,
  rowsOfRank: number,
  convention: FlopConvention,
  recomputes: boolean,
): Promise<Work> {
  manualSeed(1);
  const model = new nn.Sequential(new Block(recomputes), new nn.Linear(6, 4));
  const parallel = await parallelize(model, strategies[name]());
  const optimizer = new optim.SGD(model.parameters(), { lr: 0.1 });
  const profiler = flopsProfiler(parallel, { convention });
  profiler.startProfile();
  const output = parallel.forward(ones([rowsOfRank, 6]));
  (name === 'pipeline' ? output : loss(output)).backward();
  await optimizer.step();
  return profiler.stopProfile().work;
}

class Block extends nn.Module {
  readonly up = new nn.Linear(6, 10);
  readonly down = new nn.Linear(10, 6);
  readonly #recomputes: boolean;

  constructor(recomputes: boolean) {
    super();
    this.#recomputes = recomputes;
  }

  forward(x: Tensor): Tensor {
    const compute = (): Tensor => this.down.forward(this.up.forward(x).gelu());
    return this.#recomputes ? nn.checkpoint(compute) : compute();
  }
}
