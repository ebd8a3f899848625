import { describe, expect, test } from 'vitest';
import {
  namedCluster,
  namedModel,
  oneDevice,
  predict,
  type RunLayout,
  runOfLayout,
} from '@shardwise/planner';

// Its logits take as many operations as four of its sixteen layers.
const model = namedModel('playbook:1b');
const workload = { batch: 64, sequence: 4096 };

function stepSeconds(pipelineParallel: number, stagesAlike: RunLayout['stagesAlike']): number {
  const layout = { ...oneDevice, pipelineParallel, ...(stagesAlike && { stagesAlike }) };
  return predict(model, layout, workload, namedCluster(`${pipelineParallel}xh100`)).stepSeconds;
}

describe('stages of about the same operations', () => {
  test('leave fewer layers to the stage with the logits, so a step is shorter than with equal numbers of layers', () => {
    const ratio = stepSeconds(4, 'operations') / stepSeconds(4, 'layers');
    // 5 layers on the busiest stage instead of 4 and logits, which are about 8.
    expect(ratio).toBeGreaterThan(0.6);
    expect(ratio).toBeLessThan(0.75);
  });

  test('are never empty: with as many stages as layers, the last one has the logits alone, and another one two layers', () => {
    const ratio = stepSeconds(16, 'operations') / stepSeconds(16, 'layers');
    expect(ratio).toBeGreaterThan(0.65);
    expect(ratio).toBeLessThan(0.85);
  });

  test('are asked for: by default, stages have as many layers', () => {
    expect(stepSeconds(4, undefined)).toBe(stepSeconds(4, 'layers'));
  });
});

describe('messages between stages of eight ranks', () => {
  // 64 microbatches of 4096 tokens, each with 2048 elements of 16 bits.
  const bytes = 4096 * 2048 * 2;
  const cluster = namedCluster('16xa100');
  const layoutOf = (more: Partial<RunLayout>): RunLayout => ({
    ...oneDevice,
    tensorParallel: 8,
    pipelineParallel: 2,
    ...more,
  });
  const secondsOf = (more: Partial<RunLayout>): number =>
    predict(model, layoutOf(more), workload, cluster).terms.pipelineParallel;
  /** The seconds of one message in each direction. A link between hosts reaches 20 GB/s, and one inside 240 GB/s. */
  const sent = (each: number): number => 64 * 2 * (1e-5 + each / 20e9);

  test('are whole, in parts that the ranks gather again inside of the host, or parts that they have anyway', () => {
    const gathers = 64 * 2 * 7 * (5e-6 + bytes / 8 / 240e9);
    expect(secondsOf({})).toBeCloseTo(sent(bytes), 8);
    expect(secondsOf({ betweenStages: 'parts' })).toBeCloseTo(sent(bytes / 8) + gathers, 8);
    for (const betweenStages of ['whole', 'parts'] as const) {
      const seconds = secondsOf({ sequenceParallel: true, betweenStages });
      expect(seconds).toBeCloseTo(sent(bytes / 8), 8);
    }
  });

  test('have the same bytes in the simulator, where all ranks of a stage send together', () => {
    const simulated = (more: Partial<RunLayout>): number =>
      runOfLayout(model, layoutOf(more), workload, cluster).messageBytes;
    expect(simulated({})).toBe(8 * bytes);
    expect(simulated({ betweenStages: 'parts' })).toBe(bytes);
    expect(simulated({ sequenceParallel: true })).toBe(bytes);
  });
});
