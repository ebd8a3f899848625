import { describe, expect, it, vi } from 'vitest';
import { StepRecorder } from '../src/rank/step-recorder.ts';

describe('reports of a rank', () => {
  it('whose loss is not finite are remarked upon once, with step and rank', () => {
    const warn = vi.spyOn(console, 'warn').mockImplementation(() => {});
    const recorder = new StepRecorder({ rank: 3, send: () => {}, memoryBytes: () => undefined });
    for (const [index, loss] of [1, Number.NaN, Infinity].entries()) {
      recorder.report({ step: index + 1, loss });
    }
    recorder.close();
    expect(warn.mock.calls).toEqual([
      [expect.stringContaining('the loss is NaN from step 2 on rank 3. Look at the data')],
    ]);
    warn.mockRestore();
  });
});
