import { createThreadsWorld } from '@shardwise/collectives';
import { contextParallel, fsdp } from '@shardwise/strategies';
import { beforeAll, describe, expect, it } from 'vitest';
import { z } from 'zod';
import { runRanks } from '../../../test/support/run-ranks.ts';
import { observed, type Observed } from './ranks/context-parallel-behaviour.ts';
import { testMs, trainingMs } from './time-limits.ts';

const size = 2;

describe('contextParallel', () => {
  let ranks: readonly Observed[] = [];

  beforeAll(async () => {
    const url = new URL('./ranks/context-parallel-behaviour.ts', import.meta.url);
    const world = createThreadsWorld({ size, arenaBytes: 16 * 1024 * 1024 });
    const found = await runRanks(size, url, { world, timeoutMs: trainingMs });
    ranks = z.array(observed).length(size).parse(found);
  }, testMs);

  it.each([
    ['a mask of queries and keys', /a mask of shape \[1, 1, 4, 4\].*a mask of keys alone/],
    ['keys of another length', /4 queries and 2 keys that differ between the ranks/],
    ['dropout of weights', /method 'ring'.*dropout.*'allGather' or 'ulysses'/],
    ['tokens that the model numbers', /arange\(4\).*arange: 'places'/],
    ['fewer heads than ranks', /1 heads for 2 ranks.*at most 1 ranks/],
    ['a result that mixes tokens', /a result of shape.*may mix tokens/],
    ['a loss of unknown weight', /nothing says how many of them count.*lossWeight: 'tokens'/],
    ['a mean loss over padding', /1 tokens of padding, which would count/],
    [
      'a strategy that shares nothing',
      /each rank would train its own copy.*ddp\(\{ axis: 'cp' \}\)/,
    ],
  ])('refuses %s on all ranks', (name, says) => {
    for (const { errors } of ranks) expect(errors[name]).toMatch(says);
  });

  it('sends the bytes that its plan says', () => {
    for (const { bytes } of ranks) {
      for (const [method, { counted, planned }] of Object.entries(bytes)) {
        expect(counted, method).toBe(planned);
      }
    }
  });

  it('says in explain who has which tokens, and what travels', () => {
    for (const { explained } of ranks) {
      expect(explained).toContain('rank 0 has the tokens 0-0 and 3-3 of each 4');
      expect(explained).toMatch(/attention\.0.*keys to hop 1.*cp.*sendRecv.*sendRecv/);
      expect(explained).toMatch(/gradients of keys to hop 1/);
      expect(explained).toMatch(/result.*tokens to those of all ranks/);
    }
  });

  it('returns the loss of all tokens on each rank', () => {
    const [first] = ranks;
    for (const { losses } of ranks) {
      expect(losses['tokens']).toBeCloseTo(losses['counted'] ?? NaN, 6);
      expect(losses['tokens']).toBe(first?.losses['tokens']);
    }
  });

  it('takes the ranks that divide experts, which share the other parameters', () => {
    for (const { experts } of ranks) expect(experts.divided).toBeCloseTo(experts.alone, 5);
  });

  it('refuses options that do not fit each other', () => {
    expect(() => contextParallel({ ulyssesRanks: 2 })).toThrow(/an option of the method 'usp'/);
    const axes = [{ name: 'cp', size: 3 }];
    const plan = (): unknown => contextParallel({ method: 'usp' }).plan({ parameters: [] }, axes);
    expect(plan).toThrow(/3 ranks, which is not a multiple/);
    expect(() => fsdp({ axis: 'cp', replicas: 'cp' })).toThrow(/one axis/);
  });
});
