import { describe, expect, test } from 'vitest';
import { nn, zeros } from '@shardwise/core';
import {
  deviceFromSteps,
  describeModule,
  errorsOf,
  fitConstants,
  foldErrors,
  memoryQuantities,
  memoryQuantitiesOf,
  namedCluster,
  oneDevice,
  predict,
  quantitiesOf,
  readCluster,
  stepSums,
} from '@shardwise/planner';
import { scheduleFactsOf } from './slots.ts';
import { areaUnderCurve, spearman, summarize } from '../../../test/measured/errors.ts';
import {
  type MeasuredRun,
  playbookRuns,
  vtrainRuns,
} from '../../../test/measured/measured-runs.ts';
import { ownLineErrors } from '../../../test/measured/own-lines.ts';

function stepRows(runs: readonly MeasuredRun[]): {
  readonly device: readonly (readonly number[])[];
  readonly host: readonly (readonly number[])[];
  readonly seconds: readonly number[];
} {
  const sums = runs.map(({ model, layout, workload, cluster }) =>
    stepSums(quantitiesOf(model, layout, workload, cluster)),
  );
  return {
    device: sums.map(({ device }) => device),
    host: sums.map(({ host }) => host),
    seconds: runs.map(({ row }) => Number(row.stepMs) / 1000),
  };
}

function stepErrors(runs: readonly MeasuredRun[]): readonly number[] {
  const { device, host, seconds } = stepRows(runs);
  return foldErrors(device, seconds, host);
}

function memoryRows(runs: readonly MeasuredRun[]): readonly (readonly number[])[] {
  return runs.map(({ model, layout, workload }) => {
    if (model.kind !== 'transformer') throw new RangeError('the playbook has transformers');
    const counted = memoryQuantitiesOf(model, layout, workload);
    return memoryQuantities.map((quantity) => counted[quantity] / 2 ** 30);
  });
}

describe('a fit of constants', () => {
  const quantities = [
    [1, 2, 0],
    [3, 1, 1],
    [2, 5, 1],
    [7, 1, 3],
    [1, 1, 8],
  ];
  const constants = [0.5, 2, 0];
  const measured = quantities.map((row) =>
    row.reduce((sum, value, at) => sum + value * (constants[at] ?? 0), 0),
  );

  test('finds those from which the values were made', () => {
    for (const [at, value] of fitConstants(quantities, measured).entries()) {
      expect(value).toBeCloseTo(constants[at] ?? 0, 5);
    }
  });

  test('is not determined by a row that does not fit the others', () => {
    const rows = [...quantities, ...quantities, [4, 4, 1]];
    const values = [...measured, ...measured, 40];
    const errors = errorsOf(rows, values, fitConstants(rows, values)).slice(0, -1);
    expect(Math.max(...errors.map(Math.abs))).toBeLessThan(0.03);
  });

  test('finds those of two sums of which the larger one was measured', () => {
    // A device takes 2 for each row of work and 1 besides, and the host that starts it 9 at least.
    const work = [1, 2, 3, 4, 5, 6, 7, 8];
    const device = work.map((rows) => [rows, 1, 0]);
    const host = work.map(() => [0, 0, 1]);
    const larger = work.map((rows) => Math.max(2 * rows + 1, 9));
    const found = fitConstants(device, larger, host);
    for (const [at, constant] of [2, 1, 9].entries()) expect(found[at]).toBeCloseTo(constant, 3);
    for (const error of errorsOf(device, larger, found, host)) expect(error).toBeCloseTo(0, 4);
    // Neither sum alone has both kinds of rows.
    const alone = errorsOf(device, larger, fitConstants(device, larger));
    expect(Math.max(...alone.map(Math.abs))).toBeGreaterThan(0.1);
  });
});

function hasEmptyStages({ model, layout }: MeasuredRun): boolean {
  return model.kind === 'transformer' && layout.pipelineParallel > model.layers;
}

test('the rates of a device and of the link between its ranks are those by which the steps of its models were made', () => {
  const rates = {
    flops: 6e10,
    memoryBytesPerSecond: 9e9,
    updateBytesPerSecond: 2e10,
    launchSeconds: 4e-5,
  };
  const { flops, ...device } = rates;
  const inside = { latencySeconds: 1e-4, bytesPerSecond: 5e9 };
  const named = namedCluster('1x2xa100');
  const cluster = readCluster({
    ...named,
    device: { ...device, name: 'host', memoryBytes: 1e10, flops: { f32: flops, half: flops } },
    links: { ...named.links, inside, overlap: 0 },
    efficiency: { products: 1, memory: 1, links: 1, allocator: 1, runtimeBytes: 0 },
  });
  const steps = (
    [
      [1024, 256],
      [4, 1024],
      [4, 8],
      [4096, 16],
    ] as const
  ).flatMap(([rows, width]) => {
    const model = describeModule(
      new nn.Sequential(new nn.Linear(width, width), new nn.GELU()),
      [zeros([rows, width]), zeros([rows, width])],
      { loss: nn.functional.mseLoss },
    );
    return ([undefined, 0, 1, 3] as const).map((zero) => {
      const together = zero === undefined ? {} : { dataParallel: 2, zero };
      const shardRanks = zero === undefined || zero === 0 ? 1 : 2;
      const layout = { ...oneDevice, ...together, shardRanks, rows, precision: 'f32' } as const;
      const workload = { batch: layout.dataParallel * rows, sequence: 1 };
      const { stepSeconds } = predict(model, layout, workload, cluster);
      return { model, seconds: stepSeconds, ...together };
    });
  });
  const { errors, link, ...found } = deviceFromSteps(steps);
  for (const rate of Object.keys(rates) as readonly (keyof typeof rates)[]) {
    expect(found[rate] / rates[rate], rate).toBeCloseTo(1, 2);
  }
  expect((link?.latencySeconds ?? 0) / inside.latencySeconds).toBeCloseTo(1, 2);
  expect((link?.bytesPerSecond ?? 0) / inside.bytesPerSecond).toBeCloseTo(1, 2);
  for (const error of errors) expect(Math.abs(error)).toBeLessThan(0.01);
});

test('steps of ranks alone say nothing of the link between them', () => {
  const model = describeModule(new nn.Linear(8, 8), [zeros([4, 8]), zeros([4, 8])], {
    loss: nn.functional.mseLoss,
  });
  expect(deviceFromSteps([{ model, seconds: 1 }]).link).toBeUndefined();
});

/**
 * A step with one microbatch of 64 rows, which takes twice as long as the same with 4 of 16; and those of 39.1 billion
 * parameters on 512 devices with tensor parallelism of 2, which take longer than with 1, and 1.4 to 1.6 times as long as with
 * 4 and as many stages.
 */
function isUnexplained({ hidden, tp, rows }: MeasuredRun['row']): boolean {
  return (hidden === 8192 && tp === 2) || (hidden === 3072 && rows === 64);
}

test('no fold has all rows from which a constant can be learned', () => {
  // Two of ten rows have the second quantity, as far from each other as there are folds.
  const quantities = Array.from({ length: 10 }, (_, row) => [1 + row, row % 5 === 2 ? 10 : 0]);
  const measured = quantities.map(([a = 0, b = 0]) => 2 * a + 3 * b);
  for (const error of foldErrors(quantities, measured)) expect(Math.abs(error)).toBeLessThan(1e-4);
});

describe('steps that vTrain measured, predicted by constants of other rows', () => {
  test('of many nodes: Spearman at least 0.96, within 6.5 % in the mean, and all but a tenth within 4 %', () => {
    const runs = vtrainRuns('many-nodes');
    const errors = stepErrors(runs);
    const { mean, median, trimmedMean } = summarize(errors);
    expect(median).toBeLessThan(0.035);
    expect(trimmedMean).toBeLessThan(0.04);
    expect(mean).toBeLessThan(0.065);
    const { seconds } = stepRows(runs);
    const predicted = errors.map((error, index) => (1 + error) * (seconds[index] ?? 0));
    expect(spearman(predicted, seconds)).toBeGreaterThan(0.96);
  });

  test('of many nodes: within 5 % without six runs that no amount of work explains', () => {
    const runs = vtrainRuns('many-nodes').filter(({ row }) => !isUnexplained(row));
    expect(runs.length).toBe(67);
    expect(summarize(stepErrors(runs)).mean).toBeLessThan(0.05);
  });

  test('of many nodes: constants of their own for each layout leave 3 % of the steps to which they are fitted', () => {
    const errors = ownLineErrors(vtrainRuns('many-nodes'));
    expect(errors.length).toBe(48);
    expect(summarize(errors).mean).toBeGreaterThan(0.03);
  });

  test('of one node: within 7.5 % in the mean, and 6 % for half of the runs', () => {
    const { mean, median } = summarize(stepErrors(vtrainRuns('one-node')));
    expect(mean).toBeLessThan(0.075);
    expect(median).toBeLessThan(0.06);
  });
});

describe('the memory of the playbook, predicted by constants of other rows', () => {
  const measured = playbookRuns('playbook');
  const gibibytes = measured.map(({ row }) => Number(row.memoryGiB));
  const quantities = memoryRows(measured);

  test('is within 12 % in the mean, and 9 % for half of the runs', () => {
    const { mean, median } = summarize(foldErrors(quantities, gibibytes));
    expect(mean).toBeLessThan(0.12);
    expect(median).toBeLessThan(0.09);
  });

  test('tells runs that crashed from those that were measured, with what cannot run at all', () => {
    const constants = fitConstants(quantities, gibibytes);
    const of = (row: readonly number[]): number =>
      row.reduce((sum, value, at) => sum + value * (constants[at] ?? 0), 0);
    const runs = playbookRuns('playbook-crashed');
    // The table does not say why a run crashed. Some have more stages than layers, which searches leave out.
    const crashed = memoryRows(runs).map((row, index) =>
      runs[index] && hasEmptyStages(runs[index]) ? Infinity : of(row),
    );
    expect(measured.some(hasEmptyStages)).toBe(false);
    expect(crashed.filter((bytes) => bytes === Infinity)).toHaveLength(5);
    expect(areaUnderCurve(quantities.map(of), crashed)).toBeGreaterThan(0.99);
  });
});

describe("BLOOM's sweep of microbatches", () => {
  test('is the span of 1f1b and a constant, within 0.5 %', () => {
    // 182 billion parameters, 12 stages, 8 replicas, 2 rows: seconds of steps with m microbatches.
    const sweep = [
      [32, 35.77],
      [64, 59.65],
      [96, 83.11],
      [128, 107.12],
    ] as const;
    const quantities = sweep.map(([m]) => [m + scheduleFactsOf(12, m), 1]);
    const seconds = sweep.map(([, each]) => each);
    const [slot, fixed] = fitConstants(quantities, seconds);
    expect(slot).toBeCloseTo(0.742, 2);
    expect(fixed).toBeCloseTo(3.87, 0);
    for (const error of errorsOf(quantities, seconds, [slot ?? 0, fixed ?? 0])) {
      expect(Math.abs(error)).toBeLessThan(0.005);
    }
  });
});

test('quantities of one device have no messages', () => {
  const [run] = vtrainRuns('one-node');
  if (run === undefined) throw new RangeError('there are rows');
  const alone = quantitiesOf(run.model, oneDevice, { batch: 1, sequence: 1024 }, run.cluster);
  expect(alone).toMatchObject({
    tensorInsideBytes: 0,
    tensorBetweenBytes: 0,
    tensorMessages: 0,
    dataInsideBytes: 0,
    dataBetweenBytes: 0,
    pipelineBytes: 0,
    pipelineMessages: 0,
  });
});
