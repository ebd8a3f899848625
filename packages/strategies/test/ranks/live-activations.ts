import { cpu } from '@shardwise/backend-cpu';
import { joinThreadsWorld, type ThreadsWorld } from '@shardwise/collectives';
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
  simulateSchedule,
  stepKinds,
  stepsOf,
} from '@shardwise/strategies';
import type { RankContext } from '@shardwise/testing/ranks';
import { z } from 'zod';

export const liveActivations = z.record(
  z.string(),
  z.object({
    /**
     * The most live pairs of a stage and a microbatch at once. `bytes` is the most that the allocator held at once,
     * without states and messages.
     */
    microbatches: z.number(),
    bytes: z.number(),
    /** The same counts by the checker of schedules. */
    counted: z.object({ microbatches: z.number(), bytes: z.number() }),
    /** The bytes that `explain` reports after the first pass. */
    told: z.number(),
  }),
);

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

export async function main({
  rank,
  world,
  data: names,
}: RankContext<ThreadsWorld, readonly ScheduleName[]>): Promise<z.infer<typeof liveActivations>> {
  const region = world.regions[rank];
  if (region === undefined) throw new RangeError(`no region for rank ${rank}`);
  const underWay = { bytes: 0 };
  const mesh = new LineMesh('pp', countingSends(joinThreadsWorld(world, rank), underWay));
  const found: z.infer<typeof liveActivations> = {};
  for (const schedule of names) {
    const device = await cpu({ memory: world.memory, ...region });
    setRank({ device, mesh });
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
    found[schedule] = {
      ...most,
      counted: {
        microbatches: simulated?.peakMicrobatches ?? 0,
        bytes: simulated?.peakActivationBytes ?? 0,
      },
      told: Number(told?.split(/ {2,}/)[4] ?? Number.NaN),
    };
  }
  return found;
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
