import * as fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import {
  byPriority,
  fairByTenant,
  firstCome,
  type SchedulingPolicy,
  shortestFirst,
} from '../src/scheduling/policies.ts';
import { Scheduler } from '../src/scheduling/scheduler.ts';
import type { StepPlan } from '../src/scheduling/step-plan.ts';
import type { Sequence, SequenceOptions } from '../src/scheduling/sequence.ts';
import { alone, FakeModel } from './fake-model.ts';

const policies: readonly SchedulingPolicy[] = [firstCome, shortestFirst, byPriority, fairByTenant];

const arrival = fc.record({
  at: fc.nat({ max: 120 }),
  // Few different tokens, so that prompts begin alike.
  prompt: fc.array(fc.nat({ max: 1 }), { minLength: 1, maxLength: 40 }),
  maxNewTokens: fc.integer({ min: 1, max: 12 }),
  samples: fc.constantFrom(1, 1, 1, 3),
  priority: fc.nat({ max: 3 }),
  tenant: fc.constantFrom('a', 'b', 'c'),
  cancelledAfter: fc.option(fc.nat({ max: 10 }), { freq: 5 }),
});

test('1,000 random arrivals get the tokens that they get alone, with any policy, any proposed tokens and any space for swapped blocks, and no block is lost.', () => {
  fc.assert(
    fc.property(
      fc.array(arrival, { minLength: 25, maxLength: 25 }),
      fc.constantFrom(1, 4, 16),
      fc.constantFrom(1, 6, 17, 64),
      fc.constantFrom(...policies),
      fc.constantFrom(0, 1, 5),
      fc.constantFrom(0, 0, 3, 1000),
      (arrivals, blockSize, tokens, policy, proposed, swapBlocks) => {
        const blockCount = Math.ceil((3 * 56) / blockSize) + 8;
        const options = { blockCount, blockSize, maxChunkTokens: tokens, maxSequences: 6 };
        const model = new FakeModel({ ...options, policy, swapBlocks: () => swapBlocks }, proposed);
        const cancelled: (readonly [Sequence, number])[] = [];
        const submitted = new Map<Sequence, SequenceOptions>();
        let left = arrivals.toSorted((a, b) => a.at - b.at);
        for (let now = 0; left.length > 0 || !model.scheduler.isIdle; now++) {
          for (const each of left.filter(({ at }) => at <= now)) {
            const sequence = model.scheduler.add(each);
            if (each.cancelledAfter === null) submitted.set(sequence, each);
            else cancelled.push([sequence, now + each.cancelledAfter]);
          }
          left = left.filter(({ at }) => at > now);
          for (const [sequence, at] of cancelled) {
            if (at === now) model.scheduler.remove(sequence);
          }
          model.step(now);
          expect(now).toBeLessThan(5000);
        }
        const { allocator, swappedBlocks } = model.scheduler;
        expect([allocator.used, swappedBlocks]).toEqual([0, 0]);
        for (const [sequence, asked] of submitted) {
          expect(model.ended).toContain(sequence);
          expect(sequence.tokens).toEqual(alone(asked));
        }
      },
    ),
    { numRuns: 40 },
  );
});

test('Beams that continue any of each other read their own tokens, end also if blocks run out, and no block is lost.', () => {
  fc.assert(
    fc.property(
      fc.array(fc.record({ arrival, isBeams: fc.boolean() }), { minLength: 6, maxLength: 6 }),
      fc.constantFrom(1, 4, 16),
      fc.boolean(),
      fc.constantFrom(0, 3, 1000),
      (arrivals, blockSize, prefixCaching, swapBlocks) => {
        // As many as the largest request needs if it is alone.
        const blockCount = 3 * Math.ceil(52 / blockSize);
        const model = new FakeModel({
          blockCount,
          blockSize,
          prefixCaching,
          maxChunkTokens: 9,
          swapBlocks: () => swapBlocks,
        });
        let count = 0;
        for (const { arrival: each, isBeams } of arrivals) {
          const sequence = model.scheduler.add({ ...each, samples: isBeams ? 3 : 1 });
          count += sequence.samples;
          if (isBeams) model.beams.add(sequence.arrival);
        }
        for (let now = 0; !model.scheduler.isIdle; now++) {
          model.step(now);
          expect(now).toBeLessThan(5000);
        }
        const { allocator, swappedBlocks } = model.scheduler;
        expect([allocator.used, swappedBlocks, model.ended.length]).toEqual([0, 0, count]);
      },
    ),
    { numRuns: 100 },
  );
});

describe('A step', () => {
  test('computes a token of each sequence that goes on, and a chunk of a prompt beside them.', () => {
    const model = new FakeModel({ blockCount: 100, maxChunkTokens: 10 });
    const [first, second] = [
      model.scheduler.add({ prompt: [1, 2, 3], maxNewTokens: 9 }),
      model.scheduler.add({ prompt: Array.from({ length: 30 }, (_, at) => at), maxNewTokens: 2 }),
    ];
    const counts = (plan: StepPlan): (readonly [Sequence, number])[] =>
      plan.chunks.map(({ sequence, count }) => [sequence, count]);
    expect(counts(model.step())).toEqual([[first, 3]]);
    for (const chunk of [10, 10, 10, 1]) {
      expect(counts(model.step())).toEqual([
        [first, 1],
        [second, chunk],
      ]);
    }
  });

  test('takes blocks from the last sequence if they run out, and loses none of its tokens.', () => {
    const model = new FakeModel({ blockCount: 8, blockSize: 2, prefixCaching: false });
    const asked = [1, 2, 3].map((token) => ({ prompt: [token, 0], maxNewTokens: 8 }));
    const sequences = asked.map((each) => model.scheduler.add(each));
    while (!model.scheduler.isIdle) model.step();
    expect(model.counts.preemptions).toBeGreaterThan(0);
    expect(sequences[0]?.preemptions).toBe(0);
    expect(sequences.map(({ tokens }) => tokens)).toEqual(asked.map(alone));
  });

  test('computes nothing again of a sequence whose blocks were swapped.', () => {
    const model = new FakeModel({
      blockCount: 8,
      blockSize: 2,
      prefixCaching: false,
      swapBlocks: () => 8,
    });
    const asked = [1, 2, 3].map((token) => ({ prompt: [token, 0], maxNewTokens: 8 }));
    const sequences = asked.map((each) => model.scheduler.add(each));
    while (!model.scheduler.isIdle) model.step();
    expect(model.counts.preemptions).toBeGreaterThan(0);
    expect(model.counts.swappedIn).toBeGreaterThan(0);
    expect(model.counts.computed).toBe(3 * (2 + 7));
    expect(sequences.map(({ tokens }) => tokens)).toEqual(asked.map(alone));
  });

  test('copies no block back after a restart, which forgets all contents.', () => {
    const model = new FakeModel({ blockCount: 8, blockSize: 2, swapBlocks: () => 8 });
    const asked = [1, 2, 3].map((token) => ({ prompt: [token, 0], maxNewTokens: 8 }));
    for (const each of asked) model.scheduler.add(each);
    while (model.scheduler.swappedBlocks === 0) model.step();
    model.scheduler.restart();
    expect(model.scheduler.swappedBlocks).toBe(0);
    expect(model.scheduler.faults()).toEqual([]);
  });

  test('computes the common beginning of prompts once.', () => {
    const model = new FakeModel({ blockCount: 100, blockSize: 4 });
    const common = Array.from({ length: 32 }, (_, at) => at);
    for (const last of [50, 51, 52]) {
      model.scheduler.add({ prompt: [...common, last], maxNewTokens: 1 });
      model.step();
    }
    expect(model.counts.computed).toBe(33 + 1 + 1);
  });

  test('ends sequences whose deadline has passed.', () => {
    const model = new FakeModel({ blockCount: 100 });
    const late = model.scheduler.add({ prompt: [1], maxNewTokens: 50, deadline: 10 });
    const other = model.scheduler.add({ prompt: [2], maxNewTokens: 2 });
    model.step(9);
    expect(model.step(10).expired).toEqual([late]);
    expect(model.ended).toEqual([other]);
    expect(model.scheduler.isIdle).toBe(true);
  });

  test('keeps the prompt of several samples once.', () => {
    const model = new FakeModel({ blockCount: 100, blockSize: 4 });
    const prompt = Array.from({ length: 10 }, (_, at) => at);
    model.scheduler.add({ prompt, maxNewTokens: 3, samples: 5 });
    model.step();
    // The prompt has three blocks, of which the last one has room.
    expect(model.scheduler.allocator.used).toBe(3);
    const { copies } = model.step();
    expect(copies).toHaveLength(4);
    expect(model.scheduler.allocator.used).toBe(2 + 5);
  });

  test('gives each tenant as many tokens as the others, with the policy for it.', () => {
    const model = new FakeModel({ blockCount: 500, maxSequences: 2, policy: fairByTenant });
    const prompt = [1, 2];
    for (let index = 0; index < 8; index++) {
      model.scheduler.add({ prompt, maxNewTokens: 10, tenant: 'many' });
    }
    model.scheduler.add({ prompt, maxNewTokens: 10, tenant: 'one' });
    while (!model.ended.some(({ tenant }) => tenant === 'one')) model.step();
    expect(model.ended.filter(({ tenant }) => tenant === 'many').length).toBeLessThanOrEqual(3);
  });

  test('gives no turns to a tenant for the time when it was not there, with that policy.', () => {
    const model = new FakeModel({ blockCount: 500, maxSequences: 1, policy: fairByTenant });
    const ask = (tenant: string): void => {
      for (let index = 0; index < 6; index++) {
        model.scheduler.add({ prompt: [1, 2], maxNewTokens: 10, tenant });
      }
    };
    const ended = (own: string): number =>
      model.ended.filter(({ tenant }) => tenant === own).length;
    ask('early');
    while (!model.scheduler.isIdle) model.step();
    ask('late');
    ask('early');
    while (ended('late') < 3) model.step();
    expect(ended('early')).toBeGreaterThanOrEqual(6 + 2);
    // While one waits, another one comes.
    ask('third');
    while (ended('third') < 3) model.step();
    expect(ended('early')).toBeGreaterThanOrEqual(6 + 3);
    expect(ended('early') + ended('late')).toBeLessThanOrEqual(6 + 12);
  });

  test('counts the tokens of prompts, too, with that policy.', () => {
    const model = new FakeModel({ blockCount: 500, maxSequences: 1, policy: fairByTenant });
    const long = Array.from({ length: 60 }, (_, at) => at);
    for (let index = 0; index < 6; index++) {
      model.scheduler.add({ prompt: [index, ...long], maxNewTokens: 2, tenant: 'long' });
      model.scheduler.add({ prompt: [index, 1], maxNewTokens: 2, tenant: 'short' });
    }
    while (model.ended.length < 7) model.step();
    expect(model.ended.filter(({ tenant }) => tenant === 'long')).toHaveLength(1);
  });

  test('begins anew with all sequences after a restart.', () => {
    const model = new FakeModel({ blockCount: 100, blockSize: 2 });
    const asked = { prompt: [1, 2, 3, 4, 5], maxNewTokens: 6 };
    const sequence = model.scheduler.add(asked);
    model.step();
    model.step();
    model.scheduler.restart();
    expect(model.scheduler.allocator.available).toBe(100);
    const { chunks } = model.step();
    expect(chunks.map(({ start, count }) => [start, count])).toEqual([[0, 7]]);
    while (!model.scheduler.isIdle) model.step();
    expect(sequence.tokens).toEqual(alone(asked));
  });
});

test('A sequence that would not fit if it were alone is refused.', () => {
  const scheduler = new Scheduler({ blockCount: 4, blockSize: 4, maxSequences: 2 });
  const prompt = Array.from({ length: 10 }, () => 1);
  expect(() => scheduler.add({ prompt, maxNewTokens: 7 })).toThrow('takes 5 blocks');
  expect(() => scheduler.add({ prompt: [1], maxNewTokens: 1, samples: 3 })).toThrow('3 times');
});
