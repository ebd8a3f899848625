import { expect } from 'vitest';
import { Scheduler } from '../src/scheduling/scheduler.ts';
import type { StepPlan } from '../src/scheduling/step-plan.ts';
import type { SchedulerOptions } from '../src/scheduling/scheduler-options.ts';
import type { ScheduledChunk, Sequence, SequenceOptions } from '../src/scheduling/sequence.ts';

/** The token that follows some tokens: a number that depends on all of them. */
function following(tokens: readonly number[]): number {
  return tokens.reduce((mixed, token) => (mixed * 31 + token + 7) % 9973, 1) % 50;
}

/** What a sequence ends with if it is alone. */
export function alone({ prompt, maxNewTokens }: SequenceOptions): number[] {
  const tokens = [...prompt];
  for (let step = 0; step < maxNewTokens; step++) tokens.push(following(tokens));
  return tokens;
}

/** Runs the plans of a scheduler on a cache that keeps tokens, in the place of their keys and values. */
export class FakeModel {
  readonly scheduler: Scheduler;
  readonly ended: Sequence[] = [];
  /** The arrivals of sequences whose samples are beams. */
  readonly beams = new Set<number>();
  readonly counts = {
    steps: 0,
    computed: 0,
    preemptions: 0,
    prefixHits: 0,
    accepted: 0,
    swappedIn: 0,
  };
  readonly #proposed: number;
  readonly #slots: number[];
  readonly #beams = new Map<number, readonly Sequence[]>();
  readonly #outside = new Map<number, readonly number[]>();

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
      if (this.beams.has(sequence.arrival)) {
        this.#search(sequence);
        continue;
      }
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

  /** Lets beams go on when the last one of them has been computed: from any of them, and sometimes two from one. */
  #search(sequence: Sequence): void {
    const { scheduler } = this;
    const { arrival, promptLength, maxNewTokens } = sequence;
    if (!this.#beams.has(arrival)) {
      const forks: Sequence[] = [];
      while (sequence.samples > 1) forks.push(scheduler.fork(sequence));
      this.#beams.set(arrival, [sequence, ...forks]);
      for (const fork of forks) scheduler.hold(fork);
    }
    const beams = this.#beams.get(arrival) ?? [];
    scheduler.hold(sequence);
    if (beams.some(({ isHeld }) => !isHeld)) return;
    const from = beams.map((_, at) => following([at, sequence.tokens.length]) % beams.length);
    const tokens = from.map((beam, at) => following([...(beams[beam]?.tokens ?? []), at]));
    const parents = from.map((beam) => [...(beams[beam]?.tokens ?? [])]);
    scheduler.reorder(beams, from);
    expect(scheduler.faults()).toEqual([]);
    expect(beams.map((beam) => beam.tokens)).toEqual(parents);
    for (const [at, beam] of beams.entries()) scheduler.append(beam, tokens[at] ?? 0);
    if (sequence.tokens.length < promptLength + maxNewTokens) return;
    for (const beam of beams) {
      this.ended.push(beam);
      scheduler.remove(beam);
    }
  }

  /** Reserves places for tokens that may follow a chunk, of which the last one is wrong now and then. */
  #propose({ sequence, isLast, count }: ScheduledChunk): readonly number[] {
    const { tokens, promptLength, maxNewTokens, samples } = sequence;
    if (!isLast || count > 1 || samples > 1 || this.beams.has(sequence.arrival)) return [];
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

  #copy({ copies, swapOuts, swapIns }: StepPlan): void {
    const { blockSize } = this.scheduler;
    for (const { block, place } of swapOuts) {
      this.#outside.set(place, this.#slots.slice(block * blockSize, (block + 1) * blockSize));
    }
    for (const { block, place } of swapIns) {
      this.counts.swappedIn++;
      const contents = this.#outside.get(place) ?? [];
      for (const [at, token] of contents.entries()) this.#slots[block * blockSize + at] = token;
    }
    for (const { from, to } of copies) {
      for (let at = 0; at < blockSize; at++) {
        this.#slots[to * blockSize + at] = this.#slots[from * blockSize + at] ?? Number.NaN;
      }
    }
  }
}
