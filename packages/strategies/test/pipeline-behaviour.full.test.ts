import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createThreadsWorld } from '@shardwise/collectives';
import { spawnRanks } from '@shardwise/testing/node';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { z } from 'zod';
import { behaviour, type Behaviour } from './ranks/pipeline-behaviour.ts';

const moduleUrl = new URL('./ranks/pipeline-behaviour.ts', import.meta.url);

function expectClose(found: readonly number[], expected: readonly number[]): void {
  expect(found).toHaveLength(expected.length);
  for (const [index, value] of expected.entries()) expect(found[index]).toBeCloseTo(value, 4);
}

describe('a pipeline of two ranks', () => {
  let ranks: readonly Behaviour[] = [];
  let directory = '';

  beforeAll(async () => {
    directory = await mkdtemp(join(tmpdir(), 'pipeline-'));
    const world = createThreadsWorld({ size: 2, arenaBytes: 64 * 1024 * 1024 });
    const found = await spawnRanks(2, moduleUrl, { world, data: { directory } });
    ranks = z.array(behaviour).length(2).parse(found);
  });

  afterAll(() => rm(directory, { recursive: true, force: true }));

  it('a pipeline of two ranks gives every rank the loss of an evaluation, also of an odd number of rows', () => {
    for (const { evaluation } of ranks) {
      const [before, expected] = evaluation.before;
      expect(before).toBeCloseTo(expected ?? Number.NaN, 5);
      const [after, later] = evaluation.after;
      expect(after).toBeCloseTo(later ?? Number.NaN, 4);
      expect(after).toBeLessThan(before ?? Number.NaN);
    }
  });

  it('a pipeline of two ranks has outputs on the rank of their stage, and on all by one call', () => {
    const [first, last] = ranks.map(({ evaluation }) => evaluation.outputs.own);
    expect(first).toMatch(/^TENSOR_STATE: .*rank 1 of 'pp' has it.*onEveryRank/);
    expect(last).toBe('no error');
    for (const { evaluation } of ranks) {
      expectClose(evaluation.outputs.shared, evaluation.outputs.alone);
    }
  });

  it('generates what one rank does, in passes of growing length', () => {
    for (const { generation } of ranks) {
      expect(generation.piped).toHaveLength(5);
      expect(generation.piped).toEqual(generation.alone);
    }
  });

  it('a pipeline of two ranks adds up gradients of several passes, whether their losses are added or not', () => {
    for (const { passes } of ranks) {
      expect(passes.alone.length).toBeGreaterThan(10);
      expectClose(passes.apart, passes.alone);
      expectClose(passes.together, passes.alone);
    }
  });

  it('skips a step that overflows on all ranks alike', () => {
    for (const { scaled } of ranks) {
      expect(scaled).toMatchObject({ overflow: false, finite: true });
      expect(scaled.scales).toEqual(ranks[0]?.scaled.scales);
    }
  });

  it('a pipeline of two ranks has the same running means on all ranks as one that accumulates the microbatches', () => {
    for (const { buffers } of ranks) expectClose(buffers.piped, buffers.alone);
  });

  it('a pipeline of two ranks has outputs that a hook retains on the rank of their stage alone', () => {
    expect(ranks.map(({ retained }) => Object.keys(retained.piped))).toEqual([
      ['blocks.0', 'blocks.1'],
      ['blocks.2', 'blocks.3'],
    ]);
    for (const { retained } of ranks) {
      for (const [path, found] of Object.entries(retained.piped)) {
        expectClose(found, retained.alone[path] ?? []);
      }
    }
  });

  it('moves running statistics once, by those of all rows that came to a norm, where these are deferred', () => {
    for (const { deferred } of ranks) expectClose(deferred.piped, deferred.expected);
  });

  it('a pipeline of two ranks takes the loss of the model itself, with a part from its first stage and weights by tokens', () => {
    for (const { ownLoss } of ranks) expectClose(ownLoss.piped, ownLoss.alone);
  });

  it('a pipeline of two ranks sends no gradients to a stage that is frozen', () => {
    const [first, second] = ranks.map(({ frozen }) => frozen);
    expect(first).toEqual([]);
    expect(second).toContain('head.weight');
  });

  it('saves checkpoints that other cuts and one rank load', () => {
    for (const { checkpoints } of ranks) {
      expect(checkpoints.elsewhere).toBeCloseTo(checkpoints.on, 5);
      expect(checkpoints.alone).toBeCloseTo(checkpoints.on, 4);
    }
  });

  it('a pipeline of two ranks gives every rank the states of all parameters in a state dict', () => {
    for (const { states } of ranks) {
      expect(states.saved).toHaveLength(29);
      expect(states.reloaded).toBeCloseTo(states.on, 5);
    }
  });

  it('a pipeline of two ranks names the first stage with a value that is not finite, once, where the loss is not', () => {
    const [first, second] = ranks.map(({ faults }) => faults);
    expect(first).toEqual({
      tokens: [
        expect.stringMatching(/loss of a pipeline is NaN: .* of stage 0 on rank 0 of 'pp' \(/),
      ],
      'blocks.1.up': [
        expect.stringMatching(
          /stage 1 on rank 1 of 'pp', which begins at 'blocks.1' \(its output for microbatch 0\)/,
        ),
      ],
      'blocks.2.up': [expect.stringMatching(/stage 2 on rank 1 of 'pp'/)],
      head: [
        expect.stringMatching(/stage 3 on rank 0 of 'pp', which begins at 'blocks.3' \(the loss\)/),
      ],
    });
    expect(Object.values(second ?? {}).flat()).toEqual([]);
  });

  it('a pipeline of two ranks takes a weight that a stage uses twice, stages without parameters, and frozen ones', () => {
    for (const { sparse } of ranks) {
      expect(Object.keys(sparse)).toHaveLength(6);
      for (const [name, [own, expected]] of Object.entries(sparse)) {
        expect(expected, name).toBeGreaterThan(0.01);
        expect(own, name).toBeCloseTo(expected ?? Number.NaN, 4);
      }
    }
  });

  it('a pipeline of two ranks makes no plan after the first steps', () => {
    for (const rank of ranks) expect(rank.plans).toBe(0);
  });

  it.each([
    [
      'ranks that are given different batches',
      /^COLLECTIVE_MISMATCH: .*the data of the batch differs between rank 1 and rank 0.*over the ranks of dp/,
    ],
    [
      'ranks that cut at other modules',
      /^COLLECTIVE_MISMATCH: .*rank 1 differs from rank 0: rank 0 has the step runStages .*cut \[blocks.1\].*same strategy and options/,
    ],
    [
      'a forward pass of the module itself',
      /^TENSOR_STATE: a parameter of a pipeline, of shape .*: only rank [01] of 'pp' has it.*Call forward\(\) of what parallelize\(\) returned/,
    ],
    ['a loss that is built outside', /^CONFIG: .*an output of shape .*Give pipeline\(\) a loss/],
    ['a loss that is read before backward', /^TENSOR_STATE: .*Call loss.backward\(\) first/],
    [
      'a second backward',
      /^TENSOR_STATE: backward\(\) of the loss of a pipeline: it was called before/,
    ],
    [
      'ranks whose last batches have other numbers of rows, both fewer than microbatches',
      /^COLLECTIVE_MISMATCH: .*the shape of the batch differs between rank 1 and rank 0/,
    ],
    ['an input that requires a gradient', /^CONFIG: .*whose gradient would not arrive/],
    ['more stages than cuts', /^LAYOUT: a pipeline of 1 stages on 2 ranks: 0 cuts/],
    [
      'a schedule without backwards',
      /^CONFIG: .*it has only forward passes, so nothing would be trained/,
    ],
    [
      'a cut inside a checkpoint',
      /^LAYOUT: a pipeline cut at 'blocks.1': it is called inside a checkpoint/,
    ],
    ['a cut that is no module', /^LAYOUT: a pipeline cut at 'blocks.9': no module of this name/],
    [
      'cuts in another order',
      /^LAYOUT: a pipeline cut at 'blocks.1': it does not come after 'blocks.2'/,
    ],
    [
      'ranks with other schedules',
      /^COLLECTIVE_MISMATCH: .*rank 1 differs from rank 0 at line 2: rank 0 has the actions 1F0 /,
    ],
    [
      'stages that send each other other shapes',
      /^COLLECTIVE_MISMATCH: .*the forward pass of rank 1 would send .* of other shapes/,
    ],
    ['microbatches that a schedule does not take', /^CONFIG: the schedule dualPipeV/],
  ])('says what is wrong with %s', (name, message) => {
    for (const { errors } of ranks) expect(errors[name]).toMatch(message);
  });
});
