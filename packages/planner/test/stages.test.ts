import { describe, expect, test } from 'vitest';
import { namedCluster, namedModel, oneDevice, predict, type RunLayout } from '@shardwise/planner';

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
