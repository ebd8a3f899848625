import { cpu } from '@shardwise/backend-cpu';
import {
  LineMesh,
  manualSeed,
  nn,
  ones,
  optim,
  setRank,
  subscribe,
  type Tensor,
} from '@shardwise/core';
import type { ProcessGroup } from '@shardwise/core/spec';
import {
  countModelCosts,
  explain,
  parallelize,
  pipeline,
  type ScheduleName,
  scheduleNames,
  simulateSchedule,
  stepKinds,
  stepsOf,
} from '@shardwise/strategies';
import { onRanks } from '@shardwise/testing/node';
import { describe, expect, it } from 'vitest';

const [rows, width, microbatches, blocks] = [64, 32, 8, 8];

/** Shape: x [B, width] -> [B, width]. */
class Layers extends nn.Module {
  readonly blocks = new nn.Sequential(
    ...Array.from(
      { length: blocks },
      () => new nn.Sequential(new nn.Linear(width, width), new nn.GELU()),
    ),
  );

  forward(x: Tensor): Tensor {
    return this.blocks.forward(x);
  }
}

const loss = (output: Tensor): Tensor => output.square().mean();

/** Expects that this rank keeps no more than is counted. Its device must tell what is in use. */
async function expectCounted(schedule: ScheduleName, rank: number, group: ProcessGroup) {
  const underWay = { bytes: 0 };
  const device = await cpu({ byteLength: 32 * 1024 * 1024 });
  setRank({ device, mesh: new LineMesh('pp', countingSends(group, underWay)) });
  manualSeed(1);
  const model = new Layers();
  const costs = countModelCosts(model, [ones([rows, width])], { loss });
  const parallel = await parallelize<Layers, [x: Tensor], Tensor, []>(
    model,
    pipeline({ schedule, microbatches, costs, cut: 'flops', loss }),
  );
  const optimizer = new optim.SGD(model.parameters(), { lr: 0.1 });
  const x = ones([rows * microbatches, width]);
  const pass = async (): Promise<void> => {
    const value = parallel.forward(x);
    value.backward();
    await value.item();
  };
  // Parameters move to the device when they are first used.
  await pass();
  optimizer.zeroGrad();
  const before = device.usage().bytesInUse;
  const [step] = stepsOf(parallel.plan, stepKinds.runStages);
  if (step === undefined) throw new RangeError('a pipeline has a step that runs its stages');
  const { cut, costs: planned, edges, schedule: own } = step.data;
  const summed = new Set<string>();
  const most = { microbatches: 0, bytes: 0 };
  let live = 0;
  const unsubscribe = subscribe(({ category, name }) => {
    const [, stage = '', letter = ''] = /^(\d+)([FBIW])\d+$/.exec(name) ?? [];
    if (category !== 'stage' || letter === '') return;
    if (letter === 'F') live++;
    if (letter === 'B' || letter === 'W') {
      live--;
      summed.add(stage);
    }
    const gradients = [...summed].reduce((sum, each) => sum + bytesOf(Number(each), cut), 0);
    most.microbatches = Math.max(most.microbatches, live);
    // Messages that other ranks have not received yet do not count as activations of this rank.
    const { bytesInUse } = device.usage();
    most.bytes = Math.max(most.bytes, bytesInUse - underWay.bytes - before - gradients);
  });
  await pass();
  unsubscribe();
  const simulated = simulateSchedule(own, planned, edges).ranks[rank];
  const told = explain(parallel.plan)
    .split('\n')
    .find((line) => new RegExp(`^${rank} +[\\d, ]+  \\d`).test(line));
  const toldBytes = Number(told?.split(/ {2,}/)[4] ?? Number.NaN);
  const counted = simulated?.peakActivationBytes ?? 0;
  expect(most.microbatches).toBe(simulated?.peakMicrobatches);
  expect(most.bytes).toBeLessThanOrEqual(counted);
  // The reported memory includes activations on their way between stages.
  expect(toldBytes).toBeGreaterThanOrEqual(most.bytes);
  expect(toldBytes).toBeLessThan(1.2 * counted);
  // The count is not much too large either.
  expect(most.bytes).toBeGreaterThan(0.6 * counted);
}

/** Wraps a group and counts the memory of messages that were given to send and have not been sent yet. */
function countingSends(group: ProcessGroup, underWay: { bytes: number }): ProcessGroup {
  const send: ProcessGroup['send'] = async (buffer, to, options) => {
    const ownBytes = Math.ceil(buffer.bytes.byteLength / 64) * 64;
    underWay.bytes += ownBytes;
    await group.send(buffer, to, options);
    underWay.bytes -= ownBytes;
  };
  const split: ProcessGroup['split'] = async (...of) => {
    const part = await group.split(...of);
    return part && countingSends(part, underWay);
  };
  const own: Readonly<Record<PropertyKey, unknown>> = { send, split };
  return new Proxy(group, {
    get: (target, name) => {
      const value: unknown = own[name] ?? Reflect.get(target, name);
      return typeof value === 'function' ? value.bind(target) : value;
    },
  });
}

/** The bytes of the gradients of a stage. A stage begins at one of the blocks. */
function bytesOf(stage: number, cut: readonly string[]): number {
  const starts = [0, ...cut.map((path) => Number(path.split('.')[1])), blocks];
  return ((starts[stage + 1] ?? 0) - (starts[stage] ?? 0)) * 4 * (width * width + width);
}

describe('what a rank keeps of activations', () => {
  it.each(scheduleNames.filter((name) => name !== 'forwardOnly'))(
    'is never more than the checker counts: %s',
    async (schedule) => {
      await onRanks(2, ({ rank, group }) => expectCounted(schedule, rank, group));
    },
  );
});
