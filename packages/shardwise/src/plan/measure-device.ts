import { manualSeed, nn, optim, randn, zeros } from '@shardwise/core';
import { currentSession, type ProcessGroup } from '@shardwise/core/extend';
import {
  describeModule,
  deviceFromSteps,
  type MeasuredTraining,
  type ReachedRates,
  type ZeroStage,
} from '@shardwise/planner';
import { ddp, parallelize, zero } from '@shardwise/strategies';
import { median } from '../run-state/median.ts';
import { type Probe, probes } from './probes.ts';

/** The first step compiles. Of the others, the median counts. */
const STEPS = 12;

/**
 * Measures what the ranks of this host reach in training steps of small models. All of them train at once, so that what
 * ranks share (memory, clocks, cores) is measured as shared: first each a model of its own, and then some models together, so
 * that messages are measured between computations, as they are sent in training. It is a collective, and takes some seconds.
 */
export async function measureDevice(group: ProcessGroup): Promise<ReachedRates> {
  const measured: MeasuredTraining[] = [];
  for (const probe of probes()) {
    const model = describe(probe);
    measured.push({ model, seconds: await secondsOf(probe, group) });
    for (const stage of group.size === 1 ? [] : (probe.together ?? [])) {
      const seconds = await secondsOf(probe, group, stage);
      measured.push({ model, seconds, dataParallel: group.size, zero: stage });
    }
  }
  return deviceFromSteps(measured);
}

const { mseLoss } = nn.functional;

function describe({ build, shape }: Probe): ReturnType<typeof describeModule> {
  return describeModule(build(), [zeros(shape), zeros(shape)], { loss: mseLoss });
}

/** The time of a step, which is that of the slowest rank. With a stage, ranks train one model, and divide it by that. */
async function secondsOf(
  { build, shape }: Probe,
  group: ProcessGroup,
  stage?: ZeroStage,
): Promise<number> {
  manualSeed(1);
  const model = build();
  const trained = stage === undefined ? model : await parallelize(model, strategyOf(stage));
  const optimizer = new optim.AdamW(model.parameters());
  const [x, target] = [randn(shape), randn(shape)];
  await currentSession().realize([x.node, target.node]);
  const seconds: number[] = [];
  for (let step = 0; step < STEPS; step++) {
    await group.barrier();
    const start = performance.now();
    optimizer.zeroGrad();
    const loss = mseLoss(trained.forward(x), target);
    loss.backward();
    await optimizer.step();
    await loss.item();
    await group.barrier();
    if (step > 0) seconds.push((performance.now() - start) / 1000);
  }
  return median(seconds) ?? 0;
}

function strategyOf(stage: ZeroStage): ReturnType<typeof ddp> {
  return stage === 0 ? ddp() : zero({ stage });
}
