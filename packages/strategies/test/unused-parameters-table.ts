import { createThreadsWorld } from '@shardwise/collectives';
import { noGrad, setRank, type Tensor } from '@shardwise/core';
import { interpreter } from '@shardwise/testing';
import { spawnRanks } from '@shardwise/testing/node';
import { beforeAll, describe, expect, it } from 'vitest';
import { z } from 'zod';
import {
  inputOf,
  observations,
  optimizerOf,
  Parts,
  programs,
  read,
  useOf,
  variants,
} from './ranks/unused-parameters.ts';
import { testMs, trainingMs } from './time-limits.ts';

interface Alone {
  /** The mean of the losses of the ranks, for each pass. */
  readonly losses: readonly number[];
  readonly parameters: Readonly<Record<string, readonly number[]>>;
}

/** Trains on one rank with the batches of all, where each parameter has a gradient, of zeros at least. */
async function trainAlone(name: keyof typeof programs, size: number): Promise<Alone> {
  const { steps, passes } = programs[name];
  const model = new Parts();
  const optimizer = optimizerOf(model);
  const losses: number[] = [];
  for (let step = 0; step < steps; step++) {
    optimizer.zeroGrad();
    const made: Tensor[] = [];
    for (const [index, pass] of passes.entries()) {
      const forward = (): Tensor =>
        Array.from({ length: size }, (_, rank) =>
          model.forward(inputOf(step, index, rank), useOf(step, index, rank)),
        )
          .reduce((sum, loss) => sum.add(loss))
          .div(size);
      if ('evaluates' in pass) {
        losses.push(await noGrad(forward).item());
        continue;
      }
      const loss = forward();
      made.push(loss.retain());
      model
        .parameters()
        .reduce((sum, parameter) => sum.add(parameter.sum().mul(0)), loss)
        .backward();
    }
    await optimizer.step();
    for (const loss of made) losses.push(await loss.item());
  }
  return { losses, parameters: await read(model) };
}

/** Trains with every strategy in a world of this size, where each rank uses other parts of the model. */
export function unusedParametersTable(size: number): void {
  let ranks: readonly z.infer<typeof observations>[] = [];
  const possible = Object.entries(variants).filter(
    ([, { ranks: needed = size }]) => needed === size,
  );

  beforeAll(async () => {
    const world = createThreadsWorld({ size, arenaBytes: 16 * 1024 * 1024 });
    const url = new URL('./ranks/unused-parameters.ts', import.meta.url);
    const found = await spawnRanks(size, url, { world, timeoutMs: trainingMs });
    ranks = z.array(observations).length(size).parse(found);
    setRank({ device: interpreter() });
  }, testMs);

  describe.each(possible)(
    `%s on ${size} ranks that use other parameters each`,
    (variant, options) => {
      const { tolerance = 2e-5, second, isOrdered = false } = options;
      const places = second === 'tp' ? size / 2 : size;

      it.each([
        'one pass a step',
        'two passes a step',
        'a pass inside noSync',
        'evaluations between',
      ] as const)('trains as one rank does, with the same messages on all: %s', async (program) => {
        const alone = await trainAlone(program, places);
        const each = ranks.flatMap(({ trained }) => trained[`${variant}: ${program}`] ?? []);
        expect(each).toHaveLength(size);
        expect(each[0]?.losses).toHaveLength(alone.losses.length);
        alone.losses.forEach((loss, index) => {
          const mean = each.reduce((sum, { losses }) => sum + (losses[index] ?? NaN), 0) / size;
          expect(Math.abs(mean - loss), `loss ${index}`).toBeLessThan(tolerance);
        });
        for (const [index, { parameters, messages }] of each.entries()) {
          expect(parameters).toEqual(each[0]?.parameters);
          expect(Object.keys(parameters)).toEqual(Object.keys(alone.parameters));
          for (const [name, values] of Object.entries(alone.parameters)) {
            values.forEach((value, at) => {
              const difference = Math.abs((parameters[name]?.[at] ?? NaN) - value);
              expect(difference, `${name}[${at}]`).toBeLessThan(tolerance);
            });
          }
          const counts = messages.map((sent) => sent.length);
          expect(Math.min(...counts)).toBeGreaterThan(0);
          // Ranks with other batches run other layers, and so have other messages within layers.
          const first = second === 'tp' ? index - (index % 2) : 0;
          expect(messages).toEqual(each[first]?.messages);
        }
      });

      it.runIf(second === undefined)(
        'can run units in another order, or says that it cannot',
        () => {
          for (const { reversed } of ranks) {
            const error = reversed[variant] ?? null;
            expect(error?.code).toBe(isOrdered ? 'TENSOR_STATE' : undefined);
            if (isOrdered)
              expect(error?.message).toMatch(
                /Run units in the order in which the model declares them/,
              );
          }
        },
      );
    },
  );
}
