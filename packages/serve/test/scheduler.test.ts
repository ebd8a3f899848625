import * as fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import {
  byPriority,
  fairByTenant,
  firstCome,
  type SchedulingPolicy,
  shortestFirst,
} from '../src/scheduling/policies.ts';
import { Scheduler, type SchedulerOptions, type StepPlan } from '../src/scheduling/scheduler.ts';
import type { ScheduledChunk, Sequence, SequenceOptions } from '../src/scheduling/sequence.ts';

/** The token that follows some tokens: a number that depends on all of them. */
function following(tokens: readonly number[]): number {
  return tokens.reduce((mixed, token) => (mixed * 31 + token + 7) % 9973, 1) % 50;
}

/** What a sequence ends with if it is alone. */
function alone({ prompt, maxNewTokens }: SequenceOptions): number[] {
  const tokens = [...prompt];
  for (let step = 0; step < maxNewTokens; step++) tokens.push(following(tokens));
  return tokens;
}

/** Runs the plans of a scheduler on a cache that keeps tokens, in the place of their keys and values. */
class FakeModel {
  readonly scheduler: Scheduler;
  readonly ended: Sequence[] = [];
  readonly counts = { steps: 0, computed: 0, preemptions: 0, prefixHits: 0, accepted: 0 };
  readonly #proposed: number;
  readonly #slots: number[];

  /** `proposed` is how many tokens are proposed for a sequence in a step, of which some are wrong. */
  constructor(options: SchedulerOptions, proposed = 0) {
    this.scheduler = new Scheduler(options);
    this.#proposed = proposed;
    this.#slots = Array.from(
      { length: options.blockCount * this.scheduler.blockSize },
      () => Number.NaN,
    );
  }

  step(now = 0): StepPlan {
    const { scheduler } = this;
    const plan = scheduler.plan(now);
    expect(scheduler.faults()).toEqual([]);
    this.counts.steps++;
    this.counts.preemptions += plan.preempted.length;
    this.#copy(plan);
    const proposals = new Map(plan.chunks.map((chunk) => [chunk.sequence, this.#propose(chunk)]));
    expect(scheduler.faults()).toEqual([]);
    for (const { sequence, start, count } of plan.chunks) {
      this.counts.computed += count;
      const { table } = sequence;
      const tokens = [...sequence.tokens, ...(proposals.get(sequence) ?? [])];
      const end = start + count + (proposals.get(sequence)?.length ?? 0);
      for (let at = start; at < end; at++) this.#slots[table.slotOf(at)] = tokens[at] ?? -1;
    }
    scheduler.complete(plan);
    for (const { sequence, isLast, start, count } of plan.chunks) {
      const { table, tokens } = sequence;
      // What attention would read: all tokens up to the end of the chunk.
      const read = tokens.slice(0, start + count).map((_, at) => this.#slots[table.slotOf(at)]);
      expect(read).toEqual(tokens.slice(0, start + count));
      if (!isLast) continue;
      while (sequence.samples > 1) this.#append(scheduler.fork(sequence), read.map(Number));
      this.#append(sequence, read.map(Number));
      for (const token of proposals.get(sequence) ?? []) {
        // A sequence that has ended has no places.
        if (sequence.table.length === 0 || token !== tokens.at(-1)) break;
        scheduler.accept(sequence);
        this.counts.accepted++;
        this.#append(
          sequence,
          tokens
            .slice(0, -1)
            .concat(token)
            .map((_, at) => this.#slots[table.slotOf(at)] ?? -1),
        );
      }
      scheduler.giveBack(sequence);
      expect(table.length).toBe(sequence.computed);
    }
    expect(scheduler.faults()).toEqual([]);
    return plan;
  }

  /** Reserves places for tokens that may follow a chunk, of which the last one is wrong now and then. */
  #propose({ sequence, isLast, count }: ScheduledChunk): readonly number[] {
    const { tokens, promptLength, maxNewTokens, samples } = sequence;
    if (!isLast || count > 1 || samples > 1) return [];
    const left = promptLength + maxNewTokens - tokens.length;
    const wanted = Math.min(this.#proposed, left - 1);
    const places = this.scheduler.reserve(sequence, wanted);
    const all = [...tokens];
    for (let at = 0; at < places; at++) all.push(following(all) + Number(all.length % 5 === 0));
    return all.slice(tokens.length);
  }

  #append(sequence: Sequence, read: readonly number[]): void {
    this.scheduler.append(sequence, following(read));
    if (sequence.tokens.length < sequence.promptLength + sequence.maxNewTokens) return;
    this.ended.push(sequence);
    this.scheduler.remove(sequence);
  }

  #copy({ copies }: StepPlan): void {
    const { blockSize } = this.scheduler;
    for (const { from, to } of copies) {
      for (let at = 0; at < blockSize; at++) {
        this.#slots[to * blockSize + at] = this.#slots[from * blockSize + at] ?? Number.NaN;
      }
    }
  }
}

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

test('1,000 random arrivals get the tokens that they get alone, with any policy and any proposed tokens, and no block is lost.', () => {
  fc.assert(
    fc.property(
      fc.array(arrival, { minLength: 25, maxLength: 25 }),
      fc.constantFrom(1, 4, 16),
      fc.constantFrom(1, 6, 17, 64),
      fc.constantFrom(...policies),
      fc.constantFrom(0, 1, 5),
      (arrivals, blockSize, tokens, policy, proposed) => {
        const blockCount = Math.ceil((3 * 56) / blockSize) + 8;
        const options = { blockCount, blockSize, maxChunkTokens: tokens, maxSequences: 6 };
        const model = new FakeModel({ ...options, policy }, proposed);
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
        expect(model.scheduler.allocator.used).toBe(0);
        for (const [sequence, asked] of submitted) {
          expect(model.ended).toContain(sequence);
          expect(sequence.tokens).toEqual(alone(asked));
        }
      },
    ),
    { numRuns: 40 },
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
