import { setTimeout } from 'node:timers/promises';
import { LineMesh, manualSeed, nn, ones, optim, setRank, type Tensor } from '@shardwise/core';
import { currentSession, type ProcessGroup, type Strategy } from '@shardwise/core/extend';
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
import { profiler } from 'shardwise';

/** The steps that are logged, after one that is not. */
export const steps = 3;
export const rows = 8;
export const widths = [16, 32, 16, 8] as const;

const strategies = {
  ddp: { axis: 'dp', strategy: () => ddp() },
  zero: { axis: 'dp', strategy: () => zero({ stage: 3 }) },
  fsdp: { axis: 'dp', strategy: () => fsdp() },
  tensorParallel: {
    axis: 'tp',
    strategy: () => tensorParallel({ '0': colwiseParallel(), '2': rowwiseParallel() }),
  },
  pipeline: {
    axis: 'pp',
    strategy: () => pipeline({ microbatches: 2, cut: ['2'], loss }),
  },
} satisfies Record<string, { readonly axis: string; readonly strategy: () => Strategy }>;

export type StrategyName = keyof typeof strategies;

function loss(output: Tensor): Tensor {
  return output.square().mean();
}

/** Returns, for each strategy, what this rank communicates in the logged steps. */
export async function ofStrategies(
  group: ProcessGroup,
): Promise<ReadonlyMap<string, profiler.CommsSummary>> {
  const found = new Map<string, profiler.CommsSummary>();
  for (const [name, { axis, strategy }] of Object.entries(strategies)) {
    const step = await trainer(group, axis, strategy());
    await step();
    const logger = profiler.commsLogger(group);
    for (let count = 0; count < steps; count++) await step();
    found.set(name, plain(await logger.logSummary({ print: false })));
    logger.stop();
  }
  return found;
}

/** Returns what the ranks find of each other if rank 1 sleeps before each step. */
export async function withSleeper(group: ProcessGroup): Promise<profiler.CommsSummary> {
  const step = await trainer(group, 'dp', ddp());
  await step();
  const logger = profiler.commsLogger(group);
  for (let count = 0; count < 2; count++) {
    // Long enough that no other rank is later by chance.
    if (group.rank === 1) await setTimeout(200);
    await step();
  }
  const summary = await logger.logSummary({ showStraggler: true, print: false });
  logger.stop();
  return plain(summary);
}

/** The message of the refusal if rank 1 has logged a call less than rank 0. */
export async function withUnequalStart(group: ProcessGroup): Promise<string> {
  const logger = profiler.commsLogger(group, { enabled: group.rank === 0 });
  await group.barrier();
  logger.start();
  await group.barrier();
  try {
    await logger.logSummary({ showStraggler: true, print: false });
    return 'no error';
  } catch (error) {
    return String(error);
  } finally {
    logger.stop();
  }
}

function plain(summary: profiler.CommsSummary): profiler.CommsSummary {
  return { ...summary };
}

async function trainer(
  group: ProcessGroup,
  axis: string,
  strategy: Strategy,
): Promise<() => Promise<void>> {
  setRank({ device: currentSession().backend, mesh: new LineMesh(axis, group) });
  manualSeed(1);
  const [a, b, c, d] = widths;
  const model = new nn.Sequential(
    new nn.Linear(a, b, { bias: false }),
    new nn.GELU(),
    new nn.Linear(b, c, { bias: false }),
    new nn.Linear(c, d, { bias: false }),
  );
  const parallel = await parallelize(model, strategy);
  const optimizer = new optim.SGD(model.parameters(), { lr: 0.1 });
  return async () => {
    optimizer.zeroGrad();
    const output = parallel.forward(ones([rows, a]));
    (axis === 'pp' ? output : loss(output)).backward();
    await optimizer.step();
  };
}
