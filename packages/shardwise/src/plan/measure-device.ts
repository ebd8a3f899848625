import { manualSeed, nn, optim, randn, zeros } from '@shardwise/core';
import { currentSession, type ProcessGroup } from '@shardwise/core/extend';
import { describeModule, deviceFromSteps, type ReachedRates } from '@shardwise/planner';
import { median } from '../run-state/median.ts';
import { type Probe, probes } from './probes.ts';

/** The first step compiles. Of the others, the median counts. */
const STEPS = 6;

/**
 * Measures what the ranks of this host reach in training steps of small models. All of them train at once, each a model of
 * its own, so that what ranks share (memory, clocks, cores) is measured as shared. It is a collective, and takes some seconds.
 */
export async function measureDevice(group: ProcessGroup): Promise<ReachedRates> {
  const measured: { readonly model: ReturnType<typeof describe>; readonly seconds: number }[] = [];
  for (const probe of probes()) {
    measured.push({ model: describe(probe), seconds: await secondsOf(probe, group) });
  }
  return deviceFromSteps(measured);
}

const { mseLoss } = nn.functional;

function describe({ build, shape }: Probe): ReturnType<typeof describeModule> {
  return describeModule(build(), [zeros(shape), zeros(shape)], { loss: mseLoss });
}

/** The time of a step, which is that of the slowest rank. */
async function secondsOf({ build, shape }: Probe, group: ProcessGroup): Promise<number> {
  manualSeed(1);
  const model = build();
  const optimizer = new optim.AdamW(model.parameters());
  const [x, target] = [randn(shape), randn(shape)];
  await currentSession().realize([x.node, target.node]);
  const seconds: number[] = [];
  for (let step = 0; step < STEPS; step++) {
    await group.barrier();
    const start = performance.now();
    optimizer.zeroGrad();
    const loss = mseLoss(model.forward(x), target);
    loss.backward();
    await optimizer.step();
    await loss.item();
    await group.barrier();
    if (step > 0) seconds.push((performance.now() - start) / 1000);
  }
  return median(seconds) ?? 0;
}
