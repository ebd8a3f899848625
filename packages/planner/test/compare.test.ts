import { expect, test } from 'vitest';
import {
  compareStep,
  comparisonText,
  namedCluster,
  namedModel,
  oneDevice,
  predict,
} from '@shardwise/planner';

const prediction = predict(
  namedModel('gpt:1.7b'),
  { ...oneDevice, dataParallel: 8, tensorParallel: 8 },
  { batch: 64, sequence: 2048 },
  namedCluster('64xa100'),
);
const { terms, stepSeconds, memory } = prediction;
const compute = terms.compute + terms.optimizer;
const communication = terms.tensorParallel + terms.dataParallel;

test('a measured step stands beside the predicted one', () => {
  const bytes = memory.totalBytes - memory.kinds.overhead;
  const { figures } = compareStep(prediction, {
    stepSeconds: 1.05 * stepSeconds,
    computeSeconds: compute,
    communicationSeconds: 2 * communication,
    peakBytes: bytes,
  });
  expect(figures.map(({ figure, ratio }) => [figure, Number(ratio.toFixed(6))])).toEqual([
    ['step', 1.05],
    ['compute', 1],
    ['communication', 2],
    ['memory', 1],
  ]);
});

test.each([
  [1.05, 1, 1, 'The step takes what was predicted.'],
  [1.5, 1.6, 1, 'longer, most of it in compute: measure the device'],
  [1.5, 1, 3, 'longer, most of it in communication: measure the links'],
  [3, 1, 1, 'what was measured of it does not say where'],
  [3, 1.1, 1, 'neither in computation nor in messages'],
  [0.5, 0.5, 1, 'shorter, most of it in compute'],
])('a step of × %d with compute × %d and messages × %d says: %s', (step, c, m, says) => {
  const comparison = compareStep(prediction, {
    stepSeconds: step * stepSeconds,
    computeSeconds: c * compute,
    communicationSeconds: m * communication,
  });
  const text = comparisonText(comparison);
  expect(text).toContain(says);
  expect(text.split('\n')[1]).toMatch(/^step +\S+ m?s +\S+ m?s +× \d/);
});

test('each term that was measured stands beside the predicted one, the bubble with the messages of the pipeline', () => {
  const staged = predict(
    namedModel('gpt:1.7b'),
    { ...oneDevice, dataParallel: 4, pipelineParallel: 2, recompute: 'full' },
    { batch: 64, sequence: 2048 },
    namedCluster('8xa100'),
  );
  const {
    compute: passes,
    recompute,
    optimizer,
    bubble,
    pipelineParallel,
    dataParallel,
  } = staged.terms;
  const { figures, cause } = compareStep(staged, {
    stepSeconds: 2 * staged.stepSeconds,
    computeSeconds: passes + recompute + optimizer,
    communicationSeconds: staged.stepSeconds + bubble + pipelineParallel + dataParallel,
    dataSeconds: 0,
    terms: {
      compute: passes,
      recompute: 2 * recompute,
      optimizer,
      pipelineParallel: staged.stepSeconds + bubble + pipelineParallel,
      dataParallel,
      tensorParallel: 0,
    },
  });
  const ratios = figures.map(({ figure, terms }) => [
    figure,
    ...terms.map(({ term, ratio }) => `${term} ${ratio.toFixed(2)}`),
  ]);
  const waiting = (staged.stepSeconds + bubble + pipelineParallel) / (bubble + pipelineParallel);
  expect(ratios).toEqual([
    ['step'],
    ['compute', 'compute 1.00', 'recompute 2.00', 'optimizer 1.00'],
    ['communication', `pipelineParallel ${waiting.toFixed(2)}`],
  ]);
  expect(cause).toContain('longer, most of it in pipeline: bubble and messages: compare the times');
});

test('time in which a step waits for batches or is planned again is named, though none is predicted', () => {
  const measured = { computeSeconds: compute, communicationSeconds: communication };
  const slow = compareStep(prediction, {
    ...measured,
    stepSeconds: 2 * stepSeconds,
    dataSeconds: stepSeconds,
    programSeconds: 0.1 * stepSeconds,
  });
  expect(slow.cause).toContain('longer, most of it in data: have the loader read ahead');
  expect(comparisonText(slow)).toMatch(/data +0\.00 ms +\S+ m?s *\n/);
});

test('a term that is no time is refused', () => {
  expect(() => compareStep(prediction, { stepSeconds, terms: { optimizer: -1 } })).toThrow(
    'optimizer',
  );
});

test('memory beyond the prediction is said with the difference', () => {
  const bytes = memory.totalBytes - memory.kinds.overhead;
  const measured = { stepSeconds, peakBytes: bytes + 5e9 };
  expect(compareStep(prediction, measured).cause).toContain('Tensors take 5.00 GB more');
  expect(compareStep(prediction, { ...measured, peakBytes: bytes }).cause).not.toContain('Tensors');
});
