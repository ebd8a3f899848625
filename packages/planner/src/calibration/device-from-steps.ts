import { blocksOf } from '../cost/blocks.ts';
import { oneDevice, type RunLayout } from '../cost/run-layout.ts';
import { placesOf } from '../cost/stages.ts';
import { updatedBytes } from '../cost/step-time.ts';
import type { ModulesDescription } from '../model/model-description.ts';
import { errorsOf, fitConstants } from './least-squares.ts';

/** A training step of one rank alone, in f32 with Adam, and the time that it took. */
export interface MeasuredTraining {
  readonly model: ModulesDescription;
  readonly seconds: number;
}

/** What a device reaches in training steps. */
export interface ReachedRates {
  /** The operations per second of products. */
  readonly flops: number;
  /** The bytes per second that everything else reads and writes. */
  readonly memoryBytesPerSecond: number;
  /** The time of an operation besides its work. */
  readonly launchSeconds: number;
  /** By how much the steps by these rates differ from those that were measured, relative to them. */
  readonly errors: readonly number[];
}

/**
 * Fits the rates of a device to steps of several small models, in which products, other operations and calls have different
 * shares. What it counts is what `predict` counts.
 */
export function deviceFromSteps(steps: readonly MeasuredTraining[]): ReachedRates {
  const quantities = steps.map(({ model }) => {
    const layout: RunLayout = { ...oneDevice, rows: model.rows, precision: 'f32' };
    const [place] = placesOf(blocksOf(model, layout, { batch: model.rows, sequence: 1 }), layout);
    if (place === undefined) throw new RangeError('one device has one place');
    return [
      3 * place.forwardFlops,
      place.movedBytes + updatedBytes(place, layout),
      place.calls,
    ] as const;
  });
  const seconds = steps.map((step) => step.seconds);
  const [perFlop = 0, perByte = 0, perCall = 0] = fitConstants(quantities, seconds);
  return {
    flops: rateOf(perFlop, quantities, seconds, 0),
    memoryBytesPerSecond: rateOf(perByte, quantities, seconds, 1),
    launchSeconds: perCall,
    errors: errorsOf(quantities, seconds, [perFlop, perByte, perCall]),
  };
}

/** The rate, or the least one if the time of the steps does not depend on it. */
function rateOf(
  perUnit: number,
  quantities: readonly (readonly number[])[],
  seconds: readonly number[],
  column: number,
): number {
  if (perUnit > 0) return 1 / perUnit;
  return Math.max(...quantities.map((row, index) => (row[column] ?? 0) / (seconds[index] ?? 1)));
}
