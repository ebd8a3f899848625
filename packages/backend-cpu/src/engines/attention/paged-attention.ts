import { nextTurn } from '@shardwise/core/base';
import { IndexError } from '@shardwise/core/spec';
import {
  type LinkedLoops,
  type LoopCall,
  type LoopCode,
  loopNumbers,
} from '../../lanes/loop-code.ts';
import { addressOf as hostAddress } from '../../memory/host-address.ts';
import type { AddressOf, CompiledPartition } from '../../program/partition.ts';
import type {
  AttentionForward,
  PagedAttentionWork,
  StoredBlocks,
} from '../../program/work/attention-work.ts';
import { LONG_MS } from '../products/compiled-product.ts';
import { RepeatedProducts, TaskMemory } from '../products/repeated-products.ts';
import type { ProductResources } from '../products/run-parts.ts';
import { weightsLoop } from './attention-loops.ts';
import { type BlockReader, blockReader, type ReadableBlocks } from './block-reader.ts';
import { elementsBefore, queryProducts, scoreProducts } from './attention-products.ts';
import { keyLimits, type KeyLimits, keySpans, type KeySpan } from './key-spans.ts';
import { placed } from './plan-attention.ts';
import { headRanges, rowBlocks } from './row-blocks.ts';

/** The keys of a span, which comparisons with the bounds of each query cut. */
type SpanOfBlocks = Pick<KeySpan, 'block' | 'start' | 'keys'>;

/** The operands of the loop over scores. */
const operands = { scores: 0, firstKeys: 1, endKeys: 2, keyNumbers: 3 } as const;

/** What computes some heads of a block of queries with some blocks of keys. */
interface HeadsPlan {
  readonly scores: RepeatedProducts;
  readonly weights: LinkedLoops;
  readonly values: RepeatedProducts;
}

/** The most plans that are kept. Each has some tens of kilobytes. */
const MAX_PLANS = 512;

/**
 * The plans of all attention with tables on one memory. Layers have equal ones, and so have the sizes that a program for
 * any sizes is linked for.
 */
export class PagedPlans {
  readonly tasks: TaskMemory = new TaskMemory();
  /** Loops that convert blocks of fewer bits, by what they convert. */
  readonly conversions: Map<string, LinkedLoops> = new Map();
  readonly #known = new Map<string, readonly HeadsPlan[]>();

  of(key: string, make: () => readonly HeadsPlan[]): readonly HeadsPlan[] {
    const known = this.#known.get(key) ?? make();
    if (this.#known.size >= MAX_PLANS) this.#known.clear();
    this.#known.set(key, known);
    return known;
  }
}

/** Memory outside of the arena, and its distance from the arena's start. */
interface Outside {
  readonly memory: Float32Array;
  readonly address: number;
}

/**
 * Computes attention whose keys and values lie in blocks, and reads them there. Blocks in fewer bits are converted, some at
 * a time, as they are read. Each run looks up the blocks anew. The
 * scores of a block of queries with all keys that it sees lie in a tile, as in other attention. Each block of keys is a
 * product of its own, and so is each block of values, whose sums continue those of the blocks before. So each sum adds
 * the same numbers in the same order as if all keys and values lay together.
 */
export class PagedAttention implements CompiledPartition {
  readonly #memory: WebAssembly.Memory;
  readonly #base: bigint;
  readonly #work: PagedAttentionWork;
  readonly #resources: ProductResources;
  readonly #loops: LoopCode;
  readonly #bounds: Outside;
  readonly #keyNumbers: Outside;
  readonly #plans: PagedPlans;
  readonly #keys: BlockReader;
  readonly #values: BlockReader;

  constructor(
    memory: WebAssembly.Memory,
    work: PagedAttentionWork,
    resources: ProductResources,
    loops: LoopCode,
    plans: PagedPlans,
  ) {
    this.#memory = memory;
    this.#plans = plans;
    this.#base = hostAddress(new Uint8Array(memory.buffer));
    this.#work = work;
    this.#resources = resources;
    this.#loops = loops;
    const { blockSize, groups, width, valueWidth } = work;
    const reading = {
      memory,
      base: this.#base,
      products: resources,
      loops,
      linked: plans.conversions,
    };
    this.#keys = blockReader(work.keys, { blockSize, groups, width }, reading);
    this.#values = blockReader(work.values, { blockSize, groups, width: valueWidth }, reading);
    const all = this.#attentionOf(work.queries, work.blocksOfItem * work.blockSize);
    this.#bounds = this.#outside(2 * Math.max(0, ...rowBlocks(all).map(({ rows }) => rows)));
    // The elements at the end are there because vectors may be read to their end.
    this.#keyNumbers = this.#outside(all.keys + 64);
    this.#keyNumbers.memory.forEach((_, key, numbers) => (numbers[key] = key));
  }

  async run(addressOf: AddressOf, overlap: boolean): Promise<void> {
    const { batch, queries, blocksOfItem, blockSize, ranges } = this.#work;
    const table = new Int32Array(
      this.#memory.buffer,
      addressOf(this.#work.table),
      batch * blocksOfItem,
    );
    this.#requireBlocks(table);
    const whole = this.#attentionOf(queries, blocksOfItem * blockSize);
    let start = performance.now();
    for (let item = 0; item < batch; item++) {
      const address = addressOf(ranges) + 8 * item * queries;
      const limits = keyLimits(whole, new Int32Array(this.#memory.buffer, address, 2 * queries));
      const blocks = table.subarray(item * blocksOfItem, (item + 1) * blocksOfItem);
      for (const span of keySpans(whole, limits)) {
        this.#computeSpan(item, this.#inBlocks(span), limits, blocks, addressOf);
        if (!overlap || performance.now() - start < LONG_MS) continue;
        await nextTurn();
        start = performance.now();
      }
    }
  }

  /** A span that begins and ends with a block. */
  #inBlocks({ block, start, keys }: SpanOfBlocks): SpanOfBlocks {
    const { blockSize } = this.#work;
    const first = Math.floor(start / blockSize);
    const end = Math.ceil((start + keys) / blockSize);
    return { block, start: first * blockSize, keys: (end - first) * blockSize };
  }

  #computeSpan(
    item: number,
    { block, start, keys }: SpanOfBlocks,
    limits: KeyLimits,
    table: Int32Array,
    addressOf: AddressOf,
  ): void {
    const { blockSize, q, y } = this.#work;
    this.#setBounds({ block, start, keys }, limits);
    const numbers = [...table.subarray(start / blockSize, (start + keys) / blockSize)];
    const at = (value: number, elements: number): bigint =>
      this.#base + BigInt(addressOf(value) + 4 * elements);
    const tile = this.#tile(block.rows, keys);
    const scores = hostAddress(tile);
    const rows = at(q.value, elementsBefore(q, item, 1, block.start));
    const result = at(y.value, elementsBefore(y, item, 1, block.start));
    const places = [
      Number(scores - this.#base),
      this.#bounds.address,
      this.#bounds.address + this.#bounds.memory.byteLength / 2,
      this.#keyNumbers.address,
    ];
    for (const plan of this.#plansOf(block.rows, keys)) {
      multiply(plan.scores, this.#keys.read(numbers, addressOf), rows, scores);
      plan.weights.run((operand) => places[operand] ?? 0);
      multiply(plan.values, this.#values.read(numbers, addressOf), scores, result);
    }
  }

  #setBounds({ block, start }: SpanOfBlocks, { first, end }: KeyLimits): void {
    const { memory } = this.#bounds;
    const ends = memory.length / 2;
    for (let row = 0; row < block.rows; row++) {
      memory[row] = (first[block.start + row] ?? 0) - start;
      memory[ends + row] = (end[block.start + row] ?? 0) - start;
    }
  }

  /** The plans of all heads, for so many queries and keys. */
  #plansOf(rows: number, keys: number): readonly HeadsPlan[] {
    const { heads, groups, queries, width, valueWidth, blockSize, params } = this.#work;
    const { scale, rounding } = params;
    const sizes = [heads, groups, queries, width, valueWidth, blockSize, rows, keys];
    return this.#plans.of([...sizes, scale, rounding].join(), () => this.#plan(rows, keys));
  }

  #plan(rows: number, keys: number): readonly HeadsPlan[] {
    const { blockSize, valueWidth, y, params } = this.#work;
    const { rounding } = params;
    const work = this.#attentionOf(rows, keys);
    const block = { start: 0, rows, keys };
    const ofBlock = 4 * blockSize;
    const routine = placed(
      this.#loops.routine(`attention weights false true ${rounding} false`, () =>
        weightsLoop({ rounding, isNarrow: false }, { hasLogSums: false, hasBounds: true }),
      ),
    );
    return headRanges(work).map((heads) => {
      const part = { heads, block };
      const source = work.values.v;
      const product = { source, width: valueWidth, scale: 1, isNarrowResult: false, result: y };
      const calls = Array.from({ length: heads.count }, (_, head): LoopCall => ({
        routine,
        numbers: loopNumbers(rows, keys),
        values: [operands.scores, operands.firstKeys, operands.endKeys, operands.keyNumbers],
        byteOffsets: [4 * head * rows * keys, 0, 0, 0],
      }));
      return {
        scores: new RepeatedProducts(
          scoreProducts(work, part).map((score) => ({ ...score, columns: blockSize })),
          { continues: false, leftBytes: 0, resultBytes: ofBlock },
          this.#plans.tasks,
          this.#resources,
        ),
        weights: this.#loops.link(this.#memory, calls),
        values: new RepeatedProducts(
          queryProducts(work, part, product).map((sum) => ({
            ...sum,
            depth: blockSize,
          })),
          { continues: true, leftBytes: ofBlock, resultBytes: 0 },
          this.#plans.tasks,
          this.#resources,
        ),
      };
    });
  }

  /** The attention of some queries of one item to so many keys, as if these lay together. */
  #attentionOf(queries: number, keys: number): WholeAttention {
    const { heads, groups, width, valueWidth, q, y } = this.#work;
    // Blocks are read in f32. Products find the addresses of blocks elsewhere.
    const inBlocks = ({ value }: StoredBlocks, features: number): AttentionForward['k'] => ({
      value,
      packing: 'f32',
      elementOffset: 0,
      itemStride: 0,
      headStride: features,
      rowStride: groups * features,
    });
    return {
      kind: 'forward',
      batch: 1,
      keyBatch: 1,
      heads,
      groups,
      queries,
      keys,
      width,
      valueWidth,
      params: { ...this.#work.params, causal: false, hasKeyRanges: false },
      isNarrow: false,
      q,
      k: inBlocks(this.#work.keys, width),
      values: { v: inBlocks(this.#work.values, valueWidth), y },
      logSumExp: null,
      mask: null,
      // Blocks of queries are those of attention with ranges, from which they are read.
      keyRanges: { value: this.#work.ranges, itemStride: 2 * this.#work.queries },
      block: null,
    };
  }

  /** The scores of as many heads as are computed together. */
  #tile(rows: number, keys: number): Uint8Array {
    const heads = Math.max(...headRanges(this.#attentionOf(rows, keys)).map(({ count }) => count));
    return this.#resources.tile(0, 4 * heads * rows * keys);
  }

  /** Throws IndexError for a block that is not there. */
  #requireBlocks(table: Int32Array): void {
    const { blockCount, instruction } = this.#work;
    const element = table.findIndex((block) => block < 0 || block >= blockCount);
    if (element < 0) return;
    const [index = 0] = table.subarray(element);
    const fault = { op: 'pagedAttention', instruction, index, element } as const;
    throw IndexError.ofRun({ ...fault, size: blockCount, updated: false });
  }

  #outside(length: number): Outside {
    const memory = new Float32Array(length);
    const address = Number(hostAddress(new Uint8Array(memory.buffer)) - this.#base);
    return { memory, address };
  }
}

/** Multiplies with blocks, whose sums or results follow each other. */
function multiply(
  products: RepeatedProducts,
  blocks: Iterable<ReadableBlocks>,
  left: bigint,
  result: bigint,
): void {
  let before = 0;
  for (const { address, byteOffsets } of blocks) {
    products.run(byteOffsets, [left, address, result, result], before);
    before += byteOffsets.length;
  }
}

/** An attention that is not only its logarithms of sums. */
interface WholeAttention extends AttentionForward {
  readonly values: NonNullable<AttentionForward['values']>;
}
