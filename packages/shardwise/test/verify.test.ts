import { beforeAll, describe, expect, it } from 'vitest';
import type { Verification } from '../src/verify/finding.ts';
import { findMistakes } from './verify-mistakes.ts';

/** What is to be found of each program, and words of the hint. */
const expected = {
  'a missing all-reduce': {
    finding: { kind: 'gradient', step: 1, module: 'up', tensor: 'up.weight', ranks: [0, 1] },
    hint: 'not reduced',
  },
  'gradients averaged twice': {
    finding: { kind: 'gradient', step: 1, module: 'up', tensor: 'up.weight', ranks: [0, 1] },
    hint: '1/2 of the right value',
  },
  'gradients summed instead of averaged': {
    finding: { kind: 'gradient', step: 1, module: 'up', tensor: 'up.weight', ranks: [0, 1] },
    hint: '2 times as large',
  },
  'wrong token counts in the mean of a loss': {
    finding: { kind: 'loss', step: 1, module: '', moduleClass: 'Net', tensor: 'loss' },
    hint: 'times the right value',
  },
  'parts that are swapped': {
    finding: {
      kind: 'initial',
      step: 0,
      module: 'middle',
      tensor: 'middle.weight',
      ranks: [0, 1],
      layout: 'shard(0: dp)',
    },
    hint: 'the part that rank 1 should have',
  },
  'a buffer that is not synchronised': {
    finding: { kind: 'buffer', step: 1, module: '', tensor: 'mean', ranks: [0, 1] },
    hint: 'not reduced',
  },
  'a loss that is divided by the number of ranks': {
    finding: { kind: 'loss', step: 1, module: '', tensor: 'loss' },
    hint: '1/2 of the right value',
  },
  'data that all ranks share': {
    finding: { kind: 'batch', step: 1, tensor: 'inputs', ranks: [0, 1] },
    hint: 'DistributedSampler',
  },
  'a forgotten zeroGrad': {
    finding: { kind: 'kept gradient', step: 2, module: 'up', tensor: 'up.weight' },
    hint: 'zeroGrad',
  },
  'dropout with the same draws on all ranks': {
    finding: { kind: 'output', step: 1, module: 'drop', moduleClass: 'Dropout', tensor: 'output' },
    hint: '',
  },
  'a parameter that is initialised by the rank': {
    finding: { kind: 'initial', step: 0, module: 'down', tensor: 'down.bias', ranks: [1] },
    hint: '',
  },
  'a stale gather': {
    finding: { kind: 'output', step: 2, module: 'middle', tensor: 'output', ranks: [0, 1] },
    hint: '',
  },
  'a rank that skips a step': {
    finding: { kind: 'parameter', step: 2, module: 'up', tensor: 'up.weight', ranks: [1] },
    hint: 'still the value of the step before',
  },
  'a stage that computes a microbatch with another activation': {
    finding: { kind: 'output', step: 1, module: 'middle', moduleClass: 'Linear', ranks: [1] },
    hint: '1.010 times the right value',
  },
  'experts that answer to the tokens of other ranks': {
    finding: { kind: 'output', step: 1, module: 'experts', ranks: [0, 1] },
    hint: '',
  },
  'experts that drop fewer tokens on several ranks': {
    finding: { kind: 'output', step: 1, module: 'experts', moduleClass: 'MixtureOfExperts' },
    hint: '',
  },
  'gradients of experts that are not divided by the ranks': {
    finding: { kind: 'gradient', step: 1, tensor: 'experts.experts.up', ranks: [0, 1] },
    hint: '2 times as large',
  },
  'a learning rate that is a thousandth larger on one rank in step 12': {
    finding: { kind: 'parameter', step: 12, ranks: [1] },
    hint: '',
  },
  'a weight that a rank moves by a millionth in step 12': {
    finding: { kind: 'parameter', step: 12, tensor: 'down.weight', ranks: [1] },
    hint: '',
  },
} as const;

describe('verify', () => {
  let found: ReadonlyMap<string, Verification> = new Map();

  beforeAll(async () => {
    const [first = found, second] = await findMistakes();
    expect(second).toEqual(first);
    found = first;
  }, 120_000);

  it.each(Object.entries(expected))('names %s', (name, { finding, hint }) => {
    expect(found.get(name)?.finding).toMatchObject(finding);
    expect(found.get(name)?.finding?.hint).toContain(hint);
  });

  it('gives both values, and what the plan does to the tensor', () => {
    const { finding } = found.get('gradients averaged twice') ?? {};
    expect((finding?.found ?? 0) * 2).toBeCloseTo(finding?.expected ?? 1, 6);
    expect(finding?.tolerance).toBeLessThan(1e-6);
    expect(finding?.actions).toEqual([
      'broadcast over dp at the start',
      'commHook over dp in the backward pass',
    ]);
  });
});
