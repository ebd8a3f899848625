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

test('memory beyond the prediction is said with the difference', () => {
  const bytes = memory.totalBytes - memory.kinds.overhead;
  const measured = { stepSeconds, peakBytes: bytes + 5e9 };
  expect(compareStep(prediction, measured).cause).toContain('Tensors take 5.00 GB more');
  expect(compareStep(prediction, { ...measured, peakBytes: bytes }).cause).not.toContain('Tensors');
});
