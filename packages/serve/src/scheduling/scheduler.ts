import { checkOptions } from '@shardwise/core/extend';
import { BlockAllocator, type BlockCopy } from '../blocks/block-allocator.ts';
import { BlockTable } from '../blocks/block-table.ts';
import { type BlockSwap, SwapSpace } from '../blocks/swap-space.ts';
import { ChunkBudget } from './chunk-budget.ts';
import { firstCome, type SchedulingPolicy } from './policies.ts';
import { requireFit } from './require-fit.ts';
import { TenantTokens } from './tenant-tokens.ts';
import { type SchedulerOptions, schedulerRules } from './scheduler-options.ts';
import { isInStep, type ScheduledChunk, type Sequence, type SequenceOptions } from './sequence.ts';
import type { StepPlan } from './step-plan.ts';

/**
 * Decides what each step of a rolling batch computes: one token of each sequence that goes on, and beside these a chunk
 * of one prompt. Sequences join and leave between steps. It knows blocks and numbers of tokens, and no tensors.
 */
export class Scheduler {
  readonly allocator: BlockAllocator;
  readonly blockSize: number;
  readonly maxSequences: number;
  readonly maxChunkTokens: number;
  readonly #chunkBudget: ChunkBudget;
  readonly #policy: SchedulingPolicy;
  readonly #prefixCaching: boolean;
  readonly #swapSpace: SwapSpace;
  #waiting: Sequence[] = [];
  #running: Sequence[] = [];
  readonly #served = new TenantTokens();
  #nextNumber = 0;
  /** Sequences that arrived from this one on are not admitted. */
  #heldFrom = Number.POSITIVE_INFINITY;

  /** Throws ConfigError for options that are out of range. */
  constructor(options: SchedulerOptions) {
    checkOptions('a scheduler', options, schedulerRules);
    this.allocator = new BlockAllocator(options.blockCount);
    this.blockSize = options.blockSize ?? 16;
    this.maxSequences = options.maxSequences ?? 32;
    this.maxChunkTokens = options.maxChunkTokens ?? 256;
    this.#chunkBudget = new ChunkBudget(this.maxChunkTokens, options.maxStepRatio ?? Infinity);
    this.#policy = options.policy ?? firstCome;
    this.#prefixCaching = options.prefixCaching ?? true;
    this.#swapSpace = new SwapSpace(options.swapBlocks ?? (() => 0));
  }

  get waiting(): readonly Sequence[] {
    return this.#waiting;
  }

  get running(): readonly Sequence[] {
    return this.#running;
  }

  get isIdle(): boolean {
    return this.#waiting.length + this.#running.length === 0;
  }

  /** How many blocks are outside of the cache. */
  get swappedBlocks(): number {
    return this.#swapSpace.used;
  }

  /** How many places of the used blocks have no token. Only the last block of a sequence has such places. */
  get emptyPlaces(): number {
    const ofLast = new Map<number, number>();
    for (const { table } of this.#running) {
      const last = table.blocks.at(-1);
      const empty = table.blocks.length * this.blockSize - table.length;
      if (last !== undefined) ofLast.set(last, empty);
    }
    return [...ofLast.values()].reduce((sum, empty) => sum + empty, 0);
  }

  /** Throws ConfigError for a sequence that would not fit if it were alone. */
  add(options: SequenceOptions): Sequence {
    const { prompt, maxNewTokens, samples = 1, priority = 0, tenant = '', adapter = 0 } = options;
    const { salt = '' } = options;
    const { blockSize, maxSequences } = this;
    const { blockCount } = this.allocator;
    requireFit(prompt.length + maxNewTokens, samples, { blockCount, blockSize, maxSequences });
    const number = this.#nextNumber++;
    this.#served.join(
      tenant,
      new Set([...this.#running, ...this.#waiting].map((each) => each.tenant)),
    );
    const sequence: Sequence = {
      number,
      tokens: [...prompt],
      promptLength: prompt.length,
      maxNewTokens,
      samples,
      priority,
      tenant,
      adapter,
      deadline: options.deadline ?? Number.POSITIVE_INFINITY,
      arrival: number,
      table: new BlockTable(this.allocator, this.blockSize, salt),
      computed: 0,
      swapped: null,
      isHeld: false,
      preemptions: 0,
      isCharged: false,
      prefixHit: 0,
    };
    this.#waiting.push(sequence);
    return sequence;
  }

  /** Removes a sequence that has ended, or that nobody waits for. Without effect if it is gone already. */
  remove(sequence: Sequence): void {
    this.#waiting = this.#waiting.filter((other) => other !== sequence);
    this.#running = this.#running.filter((other) => other !== sequence);
    sequence.table.release();
    sequence.computed = 0;
    this.#dropSwapped(sequence);
  }

  /**
   * Adds a sequence that continues the same tokens in the same blocks, which are copied when one of both writes them. Only
   * for a running sequence, which counts its samples.
   */
  fork(sequence: Sequence): Sequence {
    const number = this.#nextNumber++;
    sequence.samples--;
    const copy: Sequence = {
      ...sequence,
      number,
      samples: 1,
      tokens: [...sequence.tokens],
      table: sequence.table.fork(),
    };
    this.#running.push(copy);
    return copy;
  }

  /** Computes nothing of a sequence until `reorder`, because its next token depends on other sequences. */
  hold(sequence: Sequence): void {
    sequence.isHeld = true;
  }

  /**
   * Lets each of some sequences continue the tokens of another one of them, in the same blocks. `from` says of which one,
   * for each. They are no longer held.
   */
  reorder(sequences: readonly Sequence[], from: readonly number[]): void {
    const next = sequences.map((sequence, index) => {
      const parent = sequences[from[index] ?? index] ?? sequence;
      const { table, tokens, computed } = parent;
      const runs = this.#running.includes(parent);
      // All tables are there before the first one is given back, so that no block is lost between.
      return parent === sequence
        ? null
        : { table: table.fork(), tokens: [...tokens], computed, runs };
    });
    for (const [index, sequence] of sequences.entries()) {
      sequence.isHeld = false;
      const own = next[index] ?? null;
      if (own === null) continue;
      sequence.table.release();
      this.#dropSwapped(sequence);
      sequence.table = own.table;
      sequence.computed = own.computed;
      sequence.tokens.splice(0, sequence.tokens.length, ...own.tokens);
      this.#waiting = this.#waiting.filter((other) => other !== sequence);
      this.#running = this.#running.filter((other) => other !== sequence);
      (own.runs ? this.#running : this.#waiting).push(sequence);
    }
  }

  /** Adds the token that follows a sequence whose tokens are all computed. */
  append(sequence: Sequence, token: number): void {
    sequence.tokens.push(token);
    this.#served.add(sequence.tenant, 1);
  }

  /**
   * Holds sequences that arrive from now on back until `release`. Returns whether all that arrived before the first call have
   * ended.
   */
  holdNew(): boolean {
    this.#heldFrom = Math.min(this.#heldFrom, this.#nextNumber);
    return [...this.#running, ...this.#waiting].every((sequence) =>
      this.#waitsForWeights(sequence),
    );
  }

  release(): void {
    this.#heldFrom = Number.POSITIVE_INFINITY;
  }

  /** Takes the blocks of all sequences and forgets all contents, as when the weights have changed. */
  restart(): void {
    for (const sequence of this.#running) this.#takeBlocks(sequence);
    for (const sequence of this.#waiting) this.#dropSwapped(sequence);
    this.#waiting = [...this.#running, ...this.#waiting];
    this.#running = [];
    this.allocator.forget();
  }

  /** Plans a step, and reserves the blocks for it. `now` is compared with deadlines. */
  plan(now: number): StepPlan {
    const expired = this.#expire(now);
    const preempted: Sequence[] = [];
    const chunks: ScheduledChunk[] = [];
    const copies: BlockCopy[] = [];
    const [swapOuts, swapIns]: [BlockSwap[], BlockSwap[]] = [[], []];
    let hasPrefill = false;
    const take = (sequence: Sequence, count: number): void => {
      const { table, computed, tokens } = sequence;
      copies.push(...table.append(missing(sequence, count)));
      chunks.push({ sequence, start: computed, count, isLast: computed + count === tokens.length });
      hasPrefill ||= count > 1;
    };
    const order = this.#running.toSorted((a, b) => this.#compare(a, b));
    // Sequences that have one token left come first: they are what users are waiting for.
    const isDecoding = ({ tokens, computed }: Sequence): boolean => tokens.length - computed === 1;
    const decoding = order.filter((sequence) => isDecoding(sequence));
    const others = order.filter((sequence) => !isDecoding(sequence));
    // Nobody waits for a step of a prompt alone.
    const waiting = decoding.filter(({ isHeld }) => !isHeld).length;
    const mostTokens = waiting > 0 ? this.#chunkBudget.tokensBeside(waiting) : this.maxChunkTokens;
    for (const sequence of [...decoding, ...others]) {
      if (preempted.includes(sequence)) continue;
      const count = nextCount(sequence, mostTokens);
      if (sequence.isHeld || (count > 1 && hasPrefill)) continue;
      if (this.#makeRoom(sequence, count, order, { chunks, preempted, swapOuts }))
        take(sequence, count);
    }
    if (preempted.length === 0) {
      this.#admit(swapIns, (sequence) => {
        const count = nextCount(sequence, mostTokens);
        if (count > 1 && hasPrefill) return null;
        return { count, take: () => take(sequence, count) };
      });
    }
    // Sequences that are held have the blocks of those that they wait for.
    const last = order.findLast((sequence) => this.#running.includes(sequence));
    if (chunks.length + preempted.length === 0 && last !== undefined) {
      this.#preempt(last, swapOuts);
      preempted.push(last);
    }
    return { chunks, copies, swapOuts, swapIns, preempted, expired };
  }

  /** Notes that a step has computed its chunks. */
  complete({ chunks }: Pick<StepPlan, 'chunks'>): void {
    for (const { sequence, start, count } of chunks) {
      if (!isInStep(sequence)) continue;
      sequence.computed = start + count;
      this.#seal(sequence);
    }
  }

  /** Notes how long a step took, for `maxStepRatio`. */
  noteTime({ chunks }: Pick<StepPlan, 'chunks'>, ms: number): void {
    const chunkTokens = chunks.find(({ count }) => count > 1)?.count ?? 0;
    const singles = chunks.filter(({ count }) => count === 1).length;
    this.#chunkBudget.note({ singles, chunkTokens, ms });
  }

  /**
   * Makes places for tokens that are proposed behind the chunk of a sequence in a plan: as many as there are without
   * taking blocks from another sequence. Returns how many.
   */
  reserve({ table }: Sequence, count: number): number {
    let places = count;
    while (places > 0 && table.blocksFor(places) > this.allocator.available) places--;
    // Nothing is copied: the last block is no other sequence's, because the plan has made a place in it.
    table.append(places);
    return places;
  }

  /** Notes that a proposed token was the next one, whose keys and values are therefore computed. It was appended before. */
  accept(sequence: Sequence): void {
    sequence.computed++;
    this.#seal(sequence);
  }

  /** Takes the places of proposed tokens back that were not accepted. */
  giveBack({ table, computed }: Sequence): void {
    table.truncate(computed);
  }

  /** What contradicts itself in blocks and sequences. Empty if all is well. Tests ask after every step. */
  faults(): readonly string[] {
    const all = [...this.#waiting, ...this.#running];
    const faults = [...this.allocator.faults(all.flatMap(({ table }) => table.blocks))];
    for (const { number, table, computed } of all) {
      const needed = Math.ceil(table.length / this.blockSize);
      if (table.blocks.length !== needed) {
        faults.push(`sequence ${number} has ${table.blocks.length} blocks, and needs ${needed}`);
      }
      if (computed > table.length) faults.push(`sequence ${number} computed more than has places`);
    }
    if (this.#waiting.some(({ table }) => table.length > 0)) faults.push('one waits with blocks');
    if (this.#running.some(({ swapped }) => swapped !== null)) faults.push('one runs outside');
    faults.push(...this.#swapSpace.faults(all.flatMap(({ swapped }) => swapped?.places ?? [])));
    if (this.#running.length > this.maxSequences) faults.push('too many sequences run');
    return faults;
  }

  #seal({ table, tokens, computed }: Sequence): void {
    if (this.#prefixCaching) table.seal(tokens, computed);
  }

  /** Takes blocks from the last sequences until there are enough. Returns false if the sequence has lost its own. */
  #makeRoom(
    sequence: Sequence,
    count: number,
    order: readonly Sequence[],
    {
      chunks,
      preempted,
      swapOuts,
    }: {
      readonly chunks: readonly ScheduledChunk[];
      readonly preempted: Sequence[];
      readonly swapOuts: BlockSwap[];
    },
  ): boolean {
    const needed = (): number => sequence.table.blocksFor(missing(sequence, count));
    while (needed() > this.allocator.available) {
      const planned = new Set(chunks.map((chunk) => chunk.sequence));
      const victim =
        order.findLast((other) => !planned.has(other) && !preempted.includes(other)) ?? sequence;
      this.#preempt(victim, swapOuts);
      preempted.push(victim);
      if (victim === sequence) return false;
    }
    return true;
  }

  #preempt(sequence: Sequence, swapOuts: BlockSwap[]): void {
    const { table, computed } = sequence;
    const blocks = table.blocks.slice(0, Math.ceil(computed / this.blockSize));
    const places = computed > 0 ? this.#swapSpace.take(blocks.length) : undefined;
    if (places !== undefined) {
      swapOuts.push(...blocks.map((block, at) => ({ block, place: places[at] ?? 0 })));
      sequence.swapped = { places, length: computed };
    }
    this.#takeBlocks(sequence);
    this.#running = this.#running.filter((other) => other !== sequence);
    this.#waiting.unshift(sequence);
  }

  #takeBlocks(sequence: Sequence): void {
    sequence.table.release();
    sequence.computed = 0;
    sequence.preemptions++;
  }

  #dropSwapped(sequence: Sequence): void {
    this.#swapSpace.giveBack(sequence.swapped?.places ?? []);
    sequence.swapped = null;
  }

  /** Begins with blocks that have the same tokens, and with what was copied out of the cache, as far as it is more. */
  #begin(sequence: Sequence, swapIns: BlockSwap[]): void {
    const { table, tokens, swapped } = sequence;
    if (this.#prefixCaching) sequence.computed = table.adoptPrefix(tokens);
    sequence.prefixHit = sequence.computed;
    if (swapped !== null && swapped.length > sequence.computed) {
      const known = table.blocks.length;
      table.append(swapped.length - sequence.computed);
      for (const [at, block] of table.blocks.entries()) {
        const place = swapped.places[at];
        if (at >= known && place !== undefined) swapIns.push({ block, place });
      }
      sequence.computed = swapped.length;
    }
    // Nothing is copied out in a step that copies in, so the places keep their contents until then.
    this.#dropSwapped(sequence);
  }

  /** Admits waiting sequences in order, until one does not fit. */
  #admit(
    swapIns: BlockSwap[],
    plan: (sequence: Sequence) => { readonly count: number; readonly take: () => void } | null,
  ): void {
    const taken = this.#running.reduce((sum, { samples }) => sum + samples, 0);
    let places = this.maxSequences - taken;
    const admissible = this.#waiting.filter(
      (sequence) => !sequence.isHeld && !this.#waitsForWeights(sequence),
    );
    for (const sequence of admissible.toSorted((a, b) => this.#compare(a, b))) {
      if (places < sequence.samples) return;
      const first = plan(sequence);
      if (first === null) return;
      const { table, tokens, swapped } = sequence;
      const brought = swapped?.length ?? 0;
      const needed = this.#prefixCaching
        ? table.blocksToBegin(tokens, first.count, brought)
        : Math.ceil((brought + first.count) / this.blockSize);
      // Each running sequence may need a block soon, and would otherwise take it from the one that is admitted.
      const soon = this.#running.filter(({ isHeld }) => !isHeld).length;
      if (needed + soon > this.allocator.available) return;
      this.#begin(sequence, swapIns);
      // Blocks that are taken from it later are no fault of its tenant.
      if (!sequence.isCharged) this.#served.add(sequence.tenant, tokens.length - sequence.computed);
      sequence.isCharged = true;
      plan(sequence)?.take();
      this.#waiting = this.#waiting.filter((other) => other !== sequence);
      this.#running.push(sequence);
      places -= sequence.samples;
    }
  }

  #waitsForWeights({ arrival }: Sequence): boolean {
    return arrival >= this.#heldFrom;
  }

  #expire(now: number): readonly Sequence[] {
    const expired = [...this.#running, ...this.#waiting].filter(({ deadline }) => deadline <= now);
    for (const sequence of expired) this.remove(sequence);
    return expired;
  }

  #compare(a: Sequence, b: Sequence): number {
    return this.#policy(a, b, this.#served.counts) || a.arrival - b.arrival;
  }
}

/** How many tokens of a sequence a step computes, if it computes so many at most. */
function nextCount({ tokens, computed, swapped }: Sequence, most: number): number {
  const there = Math.max(computed, swapped?.length ?? 0);
  return Math.min(tokens.length - there, most);
}

/** How many tokens have no place yet, if `count` tokens are computed next. */
function missing({ computed, table }: Sequence, count: number): number {
  return Math.max(0, computed + count - table.length);
}
