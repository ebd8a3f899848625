import { readFileSync } from 'node:fs';
import { cpu } from '@shardwise/backend-cpu';
import { beforeEach, expect, test } from 'vitest';
import { nn } from '../src/index.ts';
import { flopsProfiler } from '../src/nn/profile/flops-profiler.ts';
import { setRank } from '../src/rank.ts';
import { zeros } from '../src/tensor/create.ts';

// What PyTorch's FlopCounterMode counts in forward passes, and in backward passes with the gradient of the input, as
// tools/golden-flops.py records it.

interface Counted {
  readonly input: readonly number[];
  readonly parameters: number;
  readonly forward: Readonly<Record<string, number>>;
  readonly backward: number;
}

const { models: golden }: { models: Readonly<Record<string, Counted>> } = JSON.parse(
  readFileSync(new URL('golden/training-flops.json', import.meta.url), 'utf8'),
);

const models: Readonly<Record<string, () => nn.Sequential>> = {
  'convolutions along a line': () =>
    new nn.Sequential(
      new nn.Conv1d(3, 6, 4, { stride: 2, padding: 1 }),
      new nn.ReLU(),
      new nn.Conv1d(6, 8, 3, { dilation: 2, groups: 2, bias: false }),
    ),
  'pools along a line': () =>
    new nn.Sequential(
      new nn.Conv1d(3, 6, 3, { padding: 1 }),
      new nn.MaxPool1d(3, { stride: 2, padding: 1 }),
      new nn.Conv1d(6, 4, 1),
      new nn.AvgPool1d(2),
      new nn.Conv1d(4, 4, 2),
      new nn.AdaptiveAvgPool1d(2),
      new nn.Flatten(),
      new nn.Linear(8, 5),
    ),
  pools: () =>
    new nn.Sequential(
      new nn.Conv2d(3, 8, 3, { padding: 1 }),
      new nn.MaxPool2d(3, { stride: 2, padding: 1 }),
      new nn.Conv2d(8, 4, 3, { groups: 4 }),
      new nn.AvgPool2d(2),
      new nn.Conv2d(4, 4, 1),
      new nn.AdaptiveAvgPool2d(1),
      new nn.Flatten(),
      new nn.Linear(4, 5),
    ),
};

/** The layers that divide channels into groups. */
const groups: Readonly<Record<string, readonly (readonly [path: string, groups: number])[]>> = {
  'convolutions along a line': [['2', 2]],
  pools: [['2', 4]],
};

beforeEach(async () => setRank({ device: await cpu() }));

test.each(Object.entries(golden))(
  "FlopCounterMode's operations of a training step of %s are those of the profiler",
  async (name, counted) => {
    const model = models[name]?.() ?? new nn.Sequential();
    const profiler = flopsProfiler(model, { convention: 'pytorch' });
    const x = new nn.Parameter(new Float32Array(zeros(counted.input).numel), counted.input);
    profiler.startProfile();
    model.forward(x).sum().backward();
    for (const { grad } of [x, ...model.parameters()]) await grad?.data();
    const { work, modules, params } = profiler.stopProfile();
    expect(params).toBe(counted.parameters);
    const ofLayers = modules.filter(({ work: own }) => own.forward.flops > 0);
    expect(
      Object.fromEntries(ofLayers.map(({ path, work: own }) => [path, own.forward.flops])),
    ).toEqual(counted.forward);
    // PyTorch counts the gradient of a grouped weight as if each input channel met each output channel.
    const neverComputed = (groups[name] ?? []).reduce(
      (sum, [path, count]) => sum + (count - 1) * (counted.forward[path] ?? Number.NaN),
      0,
    );
    expect(work.backward.flops).toBe(counted.backward - neverComputed);
    expect(work.recomputation.flops).toBe(0);
  },
);
