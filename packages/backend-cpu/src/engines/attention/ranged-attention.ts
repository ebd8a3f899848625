import { nextTurn } from '@shardwise/core/base';
import type { LoopCode } from '../../lanes/loop-code.ts';
import { addressOf as hostAddress } from '../../memory/host-address.ts';
import type { AddressOf, CompiledPartition } from '../../program/partition.ts';
import {
  type AttentionBackward,
  type AttentionResult,
  type AttentionWork,
  type HeadsInMemory,
  wholeHeads,
} from '../../program/work/attention-work.ts';
import { bytesOfPacking } from '../../program/work/product-kinds.ts';
import { LONG_MS } from '../products/compiled-product.ts';
import type { ProductResources } from '../products/run-parts.ts';
import { elementsBefore } from './attention-products.ts';
import { CompiledAttention } from './compiled-attention.ts';
import { type KeyLimits, keyLimits, type KeySpan } from './key-spans.ts';
import { isOfStretch, MOST_KEYS, type PartSpan, partSpans } from './part-spans.ts';
import { planAttention, planNarrowing } from './plan-attention.ts';
import { rowBlocks } from './row-blocks.ts';
import { type Outside, StretchResults } from './stretch-results.ts';

/** The values of the plan of a block, each of which has one of the roles that a value has in attention. */
const values = {
  q: 0,
  k: 1,
  v: 2,
  y: 3,
  dy: 4,
  logSumExp: 5,
  delta: 6,
  dq: 7,
  dk: 8,
  dv: 9,
  mask: 10,
  firstKeys: 11,
  endKeys: 12,
  keyNumbers: 13,
  sums: 14,
} as const;

/** The bytes of keys, values and their gradients that blocks should find in a core's cache. */
const KEY_BYTES = 512 * 1024;

/** What blocks with one plan have in common. */
interface BlockSize extends Pick<PartSpan, 'keys' | 'sees' | 'isFirst' | 'isLast'> {
  readonly rows: number;
  /** The groups of heads that are computed together. */
  readonly groups: number;
}

/** Gradients of keys or values, which are sums over blocks. */
interface Sums {
  readonly role: 'dk' | 'dv';
  readonly result: AttentionResult;
  readonly width: number;
  /** Where sums in f32 lie if the result is bf16, and what rounds them. Null: they are made in the result. */
  readonly aside: (Outside & { readonly narrowing: CompiledAttention }) | null;
}

/**
 * Computes attention whose queries see ranges of keys. Each run reads the ranges anew, and computes each block of queries
 * with the keys that some query of the block sees, as an attention by itself. Blocks with equal numbers of keys have one
 * plan, which is moved to their places. Many keys are divided into stretches. All blocks are computed with a stretch before the
 * next one, so that its keys, and the scores of a block, stay in the cache. The sums of gradients go on in the same order.
 */
export class RangedAttention implements CompiledPartition {
  readonly #memory: WebAssembly.Memory;
  readonly #base: bigint;
  readonly #work: AttentionWork;
  readonly #resources: ProductResources;
  readonly #loops: LoopCode;
  readonly #sums: readonly Sums[];
  /** For each query of the block that is computed: the first of its keys that it sees, and one more than the last. */
  readonly #bounds: Outside;
  readonly #keyNumbers: Outside;
  /** What is added to the scores of queries that each see one key more: as many zeros as there are keys, and one more. */
  readonly #stairs: Outside;
  readonly #blocks = new Map<string, CompiledAttention>();
  /** Where results of blocks for a stretch of keys are joined. Null: there are no stretches, or gradients, which just go on. */
  readonly #stretches: StretchResults | null;

  constructor(
    memory: WebAssembly.Memory,
    work: AttentionWork,
    resources: ProductResources,
    loops: LoopCode,
  ) {
    this.#memory = memory;
    this.#base = hostAddress(new Uint8Array(memory.buffer));
    this.#work = work;
    this.#resources = resources;
    this.#loops = loops;
    this.#bounds = this.#outside(2 * Math.max(...rowBlocks(work).map(({ rows }) => rows)));
    // The elements at the end are there because vectors may be read to their end.
    this.#stairs = this.#outside(2 * work.keys + 64);
    this.#stairs.memory.fill(-Infinity, work.keys + 1);
    this.#keyNumbers = this.#outside(work.keys + 64);
    this.#keyNumbers.memory.forEach((_, key, all) => (all[key] = key));
    this.#sums = work.kind === 'backward' ? this.#sumsOf(work) : [];
    const rows = this.#bounds.memory.length / 2;
    this.#stretches =
      work.kind === 'backward' || work.keys <= MOST_KEYS
        ? null
        : new StretchResults(memory, work, rows, (length) => this.#outside(length));
  }

  async run(addressOf: AddressOf, overlap: boolean): Promise<void> {
    const { batch, keyBatch, groups, keyRanges } = this.#work;
    const isShared = keyBatch !== batch;
    let start = performance.now();
    this.#clearResults(addressOf);
    let limits = keyLimits(this.#work, this.#rangesOf(0, addressOf));
    let spans = this.#spansOf(limits);
    for (let item = 0; item < batch; item++) {
      if (item > 0 && (keyRanges?.itemStride ?? 0) > 0) {
        limits = keyLimits(this.#work, this.#rangesOf(item, addressOf));
        spans = this.#spansOf(limits);
      }
      if (item === 0 || !isShared) for (const { aside } of this.#sums) aside?.memory.fill(0);
      const together = this.#groupsTogether(spans);
      for (let group = 0; group < groups; group += together) {
        for (const span of spans) {
          this.#setBounds(span, limits);
          const places = this.#placesOf(item, group, span, addressOf);
          await this.#blockOf(span, together).run(places, false);
          if (isOfStretch(span)) this.#stretches?.join(span, { item, group, together }, addressOf);
          if (!overlap || performance.now() - start < LONG_MS) continue;
          await nextTurn();
          start = performance.now();
        }
      }
      if (item === batch - 1 || !isShared) await this.#narrow(isShared ? 0 : item, addressOf);
    }
  }

  /** Clears gradients of keys and values, which blocks add to. */
  #clearResults(addressOf: AddressOf): void {
    const cleared = new Set<number>();
    for (const { aside, result } of this.#sums) {
      if (aside !== null || cleared.has(result.value)) continue;
      cleared.add(result.value);
      // In shared memory, engines fill element by element, so wide ones are filled sooner.
      const elements = result.byteLength / Float32Array.BYTES_PER_ELEMENT;
      new Float32Array(this.#memory.buffer, addressOf(result.value), elements).fill(0);
    }
  }

  async #narrow(item: number, addressOf: AddressOf): Promise<void> {
    for (const { aside, result } of this.#sums) {
      if (aside === null) continue;
      const target = addressOf(result.value) + 2 * elementsBefore(result, item, 1);
      const place = (value: number): number => (value === values.sums ? aside.address : target);
      await aside.narrowing.run(place, false);
    }
  }

  #sumsOf(work: AttentionBackward): readonly Sums[] {
    const { dk, dv, groups, keys, width, valueWidth } = work;
    const sums = (role: 'dk' | 'dv', result: AttentionResult | null, wide: number): Sums[] => {
      if (result === null) return [];
      if (!result.isNarrow) return [{ role, result, width: wide, aside: null }];
      const plan = planNarrowing(
        this.#memory,
        work,
        { sums: values.sums, result: atStart(result, values[role]), width: wide },
        this.#resources,
        this.#loops,
      );
      const narrowing = new CompiledAttention(this.#memory, plan, this.#resources);
      const aside = { ...this.#outside(groups * keys * wide + 16), narrowing };
      return [{ role, result, width: wide, aside }];
    };
    return [...sums('dk', dk, width), ...sums('dv', dv, valueWidth)];
  }

  #rangesOf(item: number, addressOf: AddressOf): Int32Array | null {
    const { keyRanges, queries } = this.#work;
    if (keyRanges === null) return null;
    const address = addressOf(keyRanges.value) + 4 * item * keyRanges.itemStride;
    return new Int32Array(this.#memory.buffer, address, 2 * queries);
  }

  /** The spans of keys. The addend of products is either the mask or the stairs, so queries with a mask have ranges. */
  #spansOf(limits: KeyLimits): readonly PartSpan[] {
    const spans = partSpans(this.#work, limits);
    if (this.#work.mask === null) return spans;
    return spans.map((span) => (span.sees === 'oneMoreEach' ? { ...span, sees: 'ranges' } : span));
  }

  /**
   * How many groups of heads a block is computed for. Their keys, values and gradients of these stay in a core's cache from
   * block to block.
   */
  #groupsTogether(spans: readonly Pick<KeySpan, 'keys'>[]): number {
    const { kind, groups, width, valueWidth } = this.#work;
    const keys = Math.max(...spans.map((span) => span.keys));
    const bytes = (kind === 'backward' ? 2 : 1) * 4 * keys * (width + valueWidth);
    let together = Math.min(groups, Math.max(1, Math.floor(KEY_BYTES / bytes)));
    while (groups % together !== 0) together -= 1;
    return together;
  }

  #setBounds({ block, start }: KeySpan, { first, end }: KeyLimits): void {
    const { memory } = this.#bounds;
    const ends = memory.length / 2;
    for (let row = 0; row < block.rows; row++) {
      memory[row] = (first[block.start + row] ?? 0) - start;
      memory[ends + row] = (end[block.start + row] ?? 0) - start;
    }
  }

  /** The plan of blocks with these numbers of queries, keys and groups of heads. */
  #blockOf({ block, ...span }: PartSpan, groups: number): CompiledAttention {
    const { keys, sees, isFirst, isLast } = span;
    const key = `${block.rows} ${keys} ${sees} ${groups} ${isFirst} ${isLast}`;
    const known = this.#blocks.get(key);
    if (known !== undefined) return known;
    const work = this.#blockWork({ ...span, rows: block.rows, groups });
    const plan = planAttention(this.#memory, work, this.#resources, this.#loops);
    const made = new CompiledAttention(this.#memory, plan, this.#resources);
    this.#blocks.set(key, made);
    return made;
  }

  /** A block of one item as an attention by itself, whose values have the numbers in `values` and begin with the block. */
  #blockWork({ rows, groups, ...span }: BlockSize): AttentionWork {
    const { keys, sees, isFirst, isLast } = span;
    const work = this.#work;
    const joins = work.kind === 'forward' && isOfStretch(span);
    const heads = (groups * work.heads) / work.groups;
    const common = {
      ...work,
      batch: 1,
      keyBatch: 1,
      heads,
      groups,
      queries: rows,
      keys,
      params: { ...work.params, causal: false, hasKeyRanges: false },
      q: atStart(work.q, values.q),
      k: atStart(work.k, values.k),
      mask:
        sees === 'oneMoreEach'
          ? { value: values.mask, itemStride: 0, headStride: 0, queryStride: -1 }
          : work.mask && { ...work.mask, value: values.mask },
      keyRanges: null,
      block: {
        rowsOfHead: joins ? rows : work.queries,
        continues: !isFirst,
        isComplete: isLast,
        hasBounds: sees === 'ranges',
        firstKeys: values.firstKeys,
        endKeys: values.endKeys,
        keyNumbers: values.keyNumbers,
      },
    };
    if (work.kind === 'forward') {
      const made = work.values;
      const y = made && atStart(made.y, values.y);
      return {
        ...common,
        kind: 'forward',
        values: made &&
          y && {
            v: atStart(made.v, values.v),
            y: joins ? { ...y, ...wholeHeads(heads, rows, work.valueWidth) } : y,
          },
        logSumExp: work.logSumExp === null && !joins ? null : values.logSumExp,
      };
    }
    const sums = (role: 'dk' | 'dv'): AttentionResult | null => {
      const found = this.#sums.find((each) => each.role === role);
      if (found === undefined) return null;
      const own = atStart(found.result, values[role]);
      if (found.aside === null) return own;
      return { ...own, isNarrow: false, ...wholeHeads(groups, work.keys, found.width) };
    };
    return {
      ...common,
      kind: 'backward',
      v: atStart(work.v, values.v),
      dy: atStart(work.dy, values.dy),
      logSumExp: values.logSumExp,
      delta: values.delta,
      dq: work.dq && atStart(work.dq, values.dq),
      dk: sums('dk'),
      dv: sums('dv'),
    };
  }

  /** Where the values of a block begin, for heads from a group on. */
  #placesOf(item: number, group: number, span: PartSpan, addressOf: AddressOf): AddressOf {
    const { block, start, sees } = span;
    const work = this.#work;
    const keyItem = work.keyBatch === 1 ? 0 : item;
    const head = item * work.heads + (group * work.heads) / work.groups;
    const keyHead = keyItem * work.groups + group;
    const heads = (from: HeadsInMemory, first: number, ofItem: number, row: number): number =>
      addressOf(from.value) +
      bytesOfPacking(from.packing) * elementsBefore(from, first, ofItem, row);
    const result = (to: AttentionResult, first: number, ofItem: number, row: number): number =>
      addressOf(to.value) + (to.isNarrow ? 2 : 4) * elementsBefore(to, first, ofItem, row);
    const ofQueries = (from: HeadsInMemory): number => heads(from, head, work.heads, block.start);
    const ofKeys = (from: HeadsInMemory): number => heads(from, keyHead, work.groups, start);
    const ofRows = (value: number): number =>
      addressOf(value) + 4 * (head * work.queries + block.start);
    const places: number[] = [];
    places[values.q] = ofQueries(work.q);
    places[values.k] = ofKeys(work.k);
    places[values.firstKeys] = this.#bounds.address;
    places[values.endKeys] = this.#bounds.address + this.#bounds.memory.byteLength / 2;
    places[values.keyNumbers] = this.#keyNumbers.address;
    if (sees === 'oneMoreEach') {
      // Row t reads one element before row t - 1 does. The zeros end behind the last key that a row sees.
      const seenByFirst = this.#bounds.memory[this.#bounds.memory.length / 2] ?? 0;
      places[values.mask] = this.#stairs.address + 4 * (work.keys + 1 - seenByFirst);
    } else if (work.mask !== null) {
      const { value, itemStride, headStride, queryStride } = work.mask;
      const ofHead = item * itemStride + (head - item * work.heads) * headStride;
      places[values.mask] = addressOf(value) + 4 * (ofHead + block.start * queryStride + start);
    }
    if (work.logSumExp !== null) places[values.logSumExp] = ofRows(work.logSumExp);
    if (work.kind === 'forward') {
      if (work.values !== null) {
        places[values.v] = ofKeys(work.values.v);
        places[values.y] = result(work.values.y, head, work.heads, block.start);
      }
    } else {
      places[values.v] = ofKeys(work.v);
      places[values.dy] = ofQueries(work.dy);
      places[values.delta] = ofRows(work.delta);
      if (work.dq !== null) places[values.dq] = result(work.dq, head, work.heads, block.start);
    }
    if (isOfStretch(span) && this.#stretches !== null) {
      places[values.logSumExp] = this.#stretches.logSums.address;
      places[values.y] = this.#stretches.y.address;
    }
    for (const { role, result: sum, width, aside } of this.#sums) {
      places[values[role]] =
        aside === null
          ? result(sum, keyHead, work.groups, start)
          : aside.address + 4 * (group * work.keys + start) * width;
    }
    return (value) => places[value] ?? 0;
  }

  #outside(length: number): Outside {
    const memory = new Float32Array(length);
    const address = Number(hostAddress(new Uint8Array(memory.buffer)) - this.#base);
    return { memory, address };
  }
}

/** Heads of a value with another number that begins with the first row. */
function atStart<T extends HeadsInMemory | AttentionResult>(heads: T, value: number): T {
  return { ...heads, value, elementOffset: 0 };
}
