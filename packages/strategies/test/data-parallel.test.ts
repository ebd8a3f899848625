import { createThreadsWorld } from '@shardwise/collectives';
import { LayoutError, type ParameterSpec } from '@shardwise/core';
import { dataParallel, explain } from '@shardwise/strategies';
import { beforeAll, describe, expect, it } from 'vitest';
import { z } from 'zod';
import { runRanks } from '../../../test/support/run-ranks.ts';
import { observations, type Observations } from './ranks/data-parallel.ts';
import { testMs, trainingMs } from './time-limits.ts';

const batch = 7;

describe.each([1, 2, 3])('DataParallel on %i ranks', (size) => {
  let ranks: readonly Observations[] = [];
  const master = (): Observations | undefined => ranks[0];
  const others = (): readonly Observations[] => ranks.slice(1);

  beforeAll(async () => {
    const world = createThreadsWorld({ size, arenaBytes: 16 * 1024 * 1024 });
    const found = await runRanks(size, new URL('./ranks/data-parallel.ts', import.meta.url), {
      world,
      data: batch,
      timeoutMs: trainingMs,
    });
    ranks = z.array(observations).length(size).parse(found);
  }, testMs);

  const rows = Array.from({ length: batch }, (_, row) => row + 1);
  const mean = 4;

  it('divides the rows of a batch, the first ranks one more where they do not divide', () => {
    const counts = ranks.map(({ output }) => output.rows);
    expect(counts).toEqual({ 1: [7], 2: [4, 3], 3: [3, 2, 2] }[size]);
  });

  it("gathers the outputs of rank 0's batch and parameters on rank 0, zeros on the others", () => {
    for (const { output } of ranks) expect(output.shape).toEqual([batch, 1]);
    expect(master()?.output.values).toEqual(rows.map((row) => row * 10));
    for (const { output } of others()) expect(output.values).toEqual(rows.map(() => 0));
  });

  it('gathers tensors in arrays and objects, and a scalar of each rank', () => {
    expect(master()?.outputs.doubled).toEqual(rows.map((row) => row * 2));
    expect(master()?.outputs.means).toEqual({ 1: [4], 2: [2.5, 6], 3: [2, 4.5, 6.5] }[size]);
    for (const { outputs } of ranks) expect(outputs.note).toBe('as it is');
  });

  it('has gradients and optimizer states on rank 0 alone', () => {
    expect(master()?.gradients).toEqual({ weight: [mean] });
    expect(master()?.states).toBe(1);
    for (const each of others()) {
      expect(each.gradients).toEqual({ weight: null });
      expect(each.states).toBe(0);
    }
  });

  it('updates rank 0, and the others when it is replicated', () => {
    // Adam's first step has the size of the learning rate, 1.
    expect(master()?.weight.before[0]).toBeCloseTo(9, 5);
    for (const { weight } of others()) expect(weight.before).toEqual([10]);
    for (const { weight } of ranks) expect(weight.after).toEqual(master()?.weight.before);
  });

  it('accumulates the gradients of several passes on rank 0', () => {
    expect(master()?.accumulated).toEqual([2 * batch * mean]);
    for (const { accumulated } of others()) expect(accumulated).toBeNull();
  });

  it("keeps rank 0's buffers", () => {
    for (const { buffer } of ranks) expect(buffer).toBe(3);
  });

  it.each([
    ['fewer rows than ranks', 'rows in dim 0'],
    ['no rows', 'inputs without a tensor that has rows'],
    ['an input that requires a gradient', 'Pass input.detach()'],
  ])('refuses %s', (name, message) => {
    for (const { refusals } of ranks) {
      if (name === 'fewer rows than ranks' && size === 1) continue;
      expect(refusals[name]?.code).toBe('LAYOUT');
      expect(refusals[name]?.message).toContain(message);
    }
  });

  it('refuses outputs whose rows are not those of the batch', () => {
    for (const { refusals } of ranks) {
      expect(refusals['outputs of other rows']?.code).toBe('LAYOUT');
      expect(refusals['outputs of other rows']?.message).toContain('5 rows of a batch of');
    }
  });
});

describe('the plan of dataParallel', () => {
  const parameters: readonly ParameterSpec[] = [
    { name: 'up.weight', shape: [7, 4], dtype: 'f32', requiresGrad: true },
    { name: 'up.bias', shape: [7], dtype: 'f32', requiresGrad: true },
  ];

  it('the plan of dataParallel shows what rank 0 alone has', () => {
    const plan = dataParallel().plan({ parameters }, [{ name: 'dp', size: 4 }]);
    expect(explain(plan)).toMatchInlineSnapshot(`
      "dataParallel on dp=4; batch: shard(0: dp)

      parameter  dtype  shape   layout     gradient     bytes
      up.weight  f32    [7, 4]  replicate  only(dp: 0)  112
      up.bias    f32    [7]     replicate  only(dp: 0)  28

      when      collective  axis  of            bytes
      forward   broadcast   dp    2 parameters  140
      backward  reduce      dp    2 parameters  140

      per rank          bytes
      parameters        140
      gradients         140
      optimizer states  280
      buffers           not known
      activations       not known
      sum               560

      optimizer states: assumed to be those of Adam; give { optimizerTensors } for another optimizer
      states: 16Ψ = 16 × 35 = 560 bytes, Ψ = 35 trained elements
      imbalance: rank 0 of dp keeps 560 bytes of states, each of the 3 others 140"
    `);
  });

  it('the plan of dataParallel is refused a mesh without the axis', () => {
    const plan = (): unknown => dataParallel().plan({ parameters }, [{ name: 'tp', size: 4 }]);
    expect(plan).toThrow(LayoutError);
    expect(plan).toThrow(
      "dataParallel over the mesh axis 'dp': the axes tp. Name an axis of the mesh",
    );
  });
});
