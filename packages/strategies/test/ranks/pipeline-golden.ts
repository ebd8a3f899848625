import { nn, noGrad, tensor } from '@shardwise/core';
import { parallelize, pipeline, type ScheduleName } from '@shardwise/strategies';
import type { RankContext } from '@shardwise/testing/ranks';
import { z } from 'zod';
import { join } from '../../../../test/ranks/join.ts';

export const computed = z.object({
  loss: z.number(),
  gradients: z.record(z.string(), z.array(z.number())),
});

export interface GoldenTask {
  readonly schedule: ScheduleName;
  readonly cut: readonly string[];
}

const sizes = { blocks: 4, width: 6, rows: 8, microbatches: 4 };

/** Computes what tools/golden-pipelines.py computes. Each rank returns the gradients that it has. */
export async function main(
  context: RankContext<unknown, readonly GoldenTask[]>,
): Promise<z.infer<typeof computed>[]> {
  await join(context, 'cpu', 'pp');
  const found = [];
  for (const { schedule, cut } of context.data) {
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
