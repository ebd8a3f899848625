import { nn, noGrad, tensor } from '@shardwise/core';
import { parallelize, pipeline, type ScheduleName } from '@shardwise/strategies';
import { onRanks } from '@shardwise/testing/node';
import { expect, test } from 'vitest';
import golden from './golden/pipelines.json' with { type: 'json' };

interface Computed {
  loss: number;
  gradients: Record<string, number[]>;
}

interface GoldenTask {
  readonly schedule: ScheduleName;
  readonly cut: readonly string[];
}

const sizes = { blocks: 4, width: 6, rows: 8, microbatches: 4 };

/** Computes what tools/golden-pipelines.py computes. Each rank returns the gradients that it has. */
async function compute(): Promise<Computed[]> {
  const found: Computed[] = [];
  for (const { schedule, cut } of tasks) {
    const model = new nn.Sequential(
      ...Array.from({ length: sizes.blocks }, (_, index) => block(index)),
    );
    const strategy = pipeline({
      schedule,
      cut,
      microbatches: sizes.microbatches,
      loss: nn.functional.mseLoss,
    });
    const piped = await parallelize(model, strategy);
    const loss = piped.forward(
      batch((place) => Math.cos(place)),
      batch((place) => Math.sin(0.3 * place)),
    );
    loss.backward();
    const gradients: Record<string, number[]> = {};
    for (const [name, { grad }] of piped.module.namedParameters()) {
      if (grad !== null) gradients[name] = [...(await grad.data())].map(Number);
    }
    found.push({ loss: await loss.item(), gradients });
  }
  return found;
}

function block(index: number): nn.Sequential {
  const { width } = sizes;
  const layer = new nn.Linear(width, width);
  const place = (at: number): number => 100 * index + at;
  const weight = Array.from({ length: width * width }, (_, at) => Math.sin(place(at)) * 0.6);
  const bias = Array.from({ length: width }, (_, at) => Math.cos(place(at)) * 0.1);
  noGrad(() => {
    layer.weight.assign(tensor(weight).reshape([width, width]));
    layer.bias?.assign(tensor(bias));
  });
  return new nn.Sequential(layer, new nn.Tanh());
}

function batch(value: (place: number) => number) {
  const { rows, width } = sizes;
  const values = Array.from({ length: rows * width }, (_, place) => value(place));
  return tensor(values).reshape([rows, width]);
}

const cuts = { two: ['2'], four: ['1', '2', '3'] };

const tasks = [
  { schedule: 'gpipe', cut: cuts.two },
  { schedule: '1f1b', cut: cuts.two },
  { schedule: 'interleaved1f1b', cut: cuts.four },
  { schedule: 'zb1p', cut: cuts.four },
  { schedule: 'zbv', cut: cuts.four },
] as const satisfies readonly GoldenTask[];

test('pipelines on two ranks have the losses and gradients of PyTorch', async () => {
  const ranks = await onRanks(2, compute, { axes: [{ name: 'pp', size: 2 }] });
  for (const [index, { schedule }] of tasks.entries()) {
    const expected = golden.schedules[schedule];
    const mean = expected.losses.reduce((sum, loss) => sum + loss, 0) / expected.losses.length;
    const gradients = Object.assign({}, ...ranks.map((rank) => rank[index]?.gradients));
    for (const rank of ranks) expect(rank[index]?.loss, schedule).toBeCloseTo(mean, 6);
    expect(Object.keys(gradients).sort(), schedule).toEqual(Object.keys(expected.gradients).sort());
    for (const [name, values] of Object.entries(expected.gradients)) {
      for (const [place, value] of values.entries()) {
        expect(gradients[name]?.[place], `${schedule}: ${name}[${place}]`).toBeCloseTo(value, 6);
      }
    }
  }
});
