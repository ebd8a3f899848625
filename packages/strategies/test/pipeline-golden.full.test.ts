import { nn, noGrad, tensor } from '@shardwise/core';
import { parallelize, pipeline } from '@shardwise/strategies';
import { onRanks } from '@shardwise/testing/node';
import { expect, it } from 'vitest';
import { valuesOf } from '../../../test/support/model-values.ts';
import golden from './golden/pipelines.json' with { type: 'json' };

const sizes = { blocks: 4, width: 6, rows: 8, microbatches: 4 };

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

it.each([
  ['gpipe', cuts.two],
  ['1f1b', cuts.two],
  ['interleaved1f1b', cuts.four],
  ['zb1p', cuts.four],
  ['zbv', cuts.four],
] as const)(
  'a pipeline by %s on two ranks has the loss and gradients of PyTorch',
  async (schedule, cut) => {
    const expected = golden.schedules[schedule];
    const mean = expected.losses.reduce((sum, loss) => sum + loss, 0) / expected.losses.length;
    const ranks = await onRanks(
      2,
      async () => {
        const { blocks, microbatches } = sizes;
        const layers = Array.from({ length: blocks }, (_, index) => block(index));
        const strategy = pipeline({ schedule, cut, microbatches, loss: nn.functional.mseLoss });
        const piped = await parallelize(new nn.Sequential(...layers), strategy);
        const loss = piped.forward(
          batch((place) => Math.cos(place)),
          batch((place) => Math.sin(0.3 * place)),
        );
        loss.backward();
        const gradients: Record<string, number[]> = {};
        for (const [name, { grad }] of piped.module.namedParameters()) {
          if (grad !== null) gradients[name] = await valuesOf(grad);
        }
        expect(await loss.item()).toBeCloseTo(mean, 6);
        return gradients;
      },
      { axes: [{ name: 'pp', size: 2 }] },
    );
    // Each rank has the gradients of its stages.
    const gradients: Record<string, number[]> = Object.assign({}, ...ranks);
    expect(Object.keys(gradients).sort()).toEqual(Object.keys(expected.gradients).sort());
    for (const [name, values] of Object.entries(expected.gradients)) {
      for (const [place, value] of values.entries()) {
        expect(gradients[name]?.[place], `${name}[${place}]`).toBeCloseTo(value, 6);
      }
    }
  },
);
