import { IndexError } from '@shardwise/core/spec';
import { type LoopCode, loopNumbers } from '../../lanes/loop-code.ts';
import { addressOf as hostAddress } from '../../memory/host-address.ts';
import type { AddressOf, CompiledPartition } from '../../program/partition.ts';
import type {
  AttentionForward,
  PagedAttentionWork,
  StoredBlocks,
} from '../../program/work/attention-work.ts';
import type { MatrixProduct } from '../../program/work/matrix-product.ts';
import { RepeatedProducts } from '../products/repeated-products.ts';
import { type ProductResources, runParts } from '../products/run-parts.ts';
import { worthOfThread } from '../products/split-products.ts';
import { ThreadTasks } from '../products/thread-tasks.ts';
import { weightsLoop } from './attention-loops.ts';
import { type BlockReader, blockReader } from './block-reader.ts';
import { elementsBefore, queryProducts, scoreProducts } from './attention-products.ts';
import { keyLimits, type KeyLimits, keySpans, type KeySpan } from './key-spans.ts';
import { placed } from './plan-attention.ts';
import { headRanges } from './row-blocks.ts';

/** The keys of a span, which comparisons with the bounds of each query cut. */
type SpanOfBlocks = Pick<KeySpan, 'block' | 'start' | 'keys'>;

/** What computes some heads of a block of queries with some blocks of keys. */
interface HeadsPlan {
  readonly scores: RepeatedProducts;
  /** The rows and columns of the scores. */
  readonly numbers: readonly number[];
  readonly values: RepeatedProducts;
}

/** A block of queries of an item, and the numbers of its blocks of keys. */
interface Unit {
  readonly item: number;
  readonly span: SpanOfBlocks;
  readonly limits: KeyLimits;
  readonly blocks: readonly number[];
}

/** The most plans that are kept. Each has some tens of kilobytes. */
const MAX_PLANS = 512;

/**
 * The plans of all attention with tables on one memory. Layers have equal ones, and so have the sizes that a program for
 * any sizes is linked for.
 */
export class PagedPlans {
  readonly #threads: ThreadTasks[] = [];
  readonly #known = new Map<string, readonly HeadsPlan[]>();

  /** The tasks of a thread, which all attention fills in turn. */
  tasksOf(thread: number): ThreadTasks {
    return (this.#threads[thread] ??= new ThreadTasks(thread));
  }

  of(key: string, make: () => readonly HeadsPlan[]): readonly HeadsPlan[] {
    const known = this.#known.get(key) ?? make();
    if (this.#known.size >= MAX_PLANS) this.#known.clear();
    this.#known.set(key, known);
    return known;
  }
}

/** Numbers in f32, and their address. */
class OwnMemory {
  #memory = new Float32Array(0);
  #address = 0;

  get address(): number {
    return this.#address;
  }

  /** Memory of at least so many numbers, whose contents may have gone. */
  of(length: number): Float32Array {
    if (this.#memory.length < length) {
      this.#memory = new Float32Array(2 * length);
      this.#address = Number(hostAddress(new Uint8Array(this.#memory.buffer)));
    }
    return this.#memory;
  }
}

/**
 * Computes attention whose keys and values lie in blocks, and reads them there. Blocks in fewer bits are converted, some at
 * a time, as they are read. Each run looks up the blocks anew. The scores of a block of queries with all keys that it sees lie in a tile, as in other attention. Each block of keys is a
 * product of its own, and so is each block of values, whose sums continue those of the blocks before. So each sum adds
 * the same numbers in the same order as if all keys and values lay together. Threads share out the blocks of queries of all
 * items, and each computes its own in one call.
 */
export class PagedAttention implements CompiledPartition {
  readonly #memory: WebAssembly.Memory;
  readonly #base: number;
  readonly #work: PagedAttentionWork;
  readonly #resources: ProductResources;
  readonly #weights: bigint;
  readonly #bounds = new OwnMemory();
  readonly #keyNumbers = new OwnMemory();
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
    this.#base = Number(hostAddress(new Uint8Array(memory.buffer)));
    this.#work = work;
    this.#resources = resources;
    const { blockSize, groups, width, valueWidth, blocksOfItem, params } = work;
    const { rounding } = params;
    this.#weights = placed(
      loops.routine(`attention weights false true ${rounding} false`, () =>
        weightsLoop({ rounding, isNarrow: false }, { hasLogSums: false, hasBounds: true }),
      ),
    );
    const reading = { base: this.#base, products: resources, loops };
    this.#keys = blockReader(work.keys, { blockSize, groups, width }, reading);
    this.#values = blockReader(work.values, { blockSize, groups, width: valueWidth }, reading);
    // The elements at the end are there because vectors may be read to their end.
    const numbers = this.#keyNumbers.of(blocksOfItem * blockSize + 64);
    numbers.forEach((_, key) => (numbers[key] = key));
  }

  run(addressOf: AddressOf, overlap: boolean): Promise<void> | undefined {
    const units = this.#unitsOf(addressOf);
    const rows = units.reduce((sum, { span }) => sum + span.block.rows, 0);
    const bounds = this.#bounds.of(2 * this.#work.heads * rows);
    let used = 0;
    const parts = this.#shares(units).map((own, thread) => {
      const tasks = this.#plans.tasksOf(thread);
      tasks.restart(2 * this.#work.heads * own.reduce((sum, { blocks }) => sum + blocks.length, 0));
      for (const unit of own) used = this.#addUnit(tasks, unit, addressOf, bounds, used);
      return tasks.part(this.#resources);
    });
    return runParts(parts, this.#resources, overlap)?.then(() => undefined);
  }

  /** What is computed, in the order of the items. */
  #unitsOf(addressOf: AddressOf): readonly Unit[] {
    const { batch, queries, blocksOfItem, blockSize, ranges } = this.#work;
    const { buffer } = this.#memory;
    const table = new Int32Array(buffer, addressOf(this.#work.table), batch * blocksOfItem);
    this.#requireBlocks(table);
    const whole = this.#attentionOf(queries, blocksOfItem * blockSize);
    return Array.from({ length: batch }, (_, item) => {
      const address = addressOf(ranges) + 8 * item * queries;
      const limits = keyLimits(whole, new Int32Array(buffer, address, 2 * queries));
      const first = item * blocksOfItem;
      return keySpans(whole, limits).map((each): Unit => {
        const span = this.#inBlocks(each);
        const start = first + span.start / blockSize;
        const blocks = [...table.subarray(start, start + span.keys / blockSize)];
        return { item, span, limits, blocks };
      });
    }).flat();
  }

  /** Divides units among threads, as products are. */
  #shares(units: readonly Unit[]): readonly (readonly Unit[])[] {
    const { heads, groups, width, valueWidth } = this.#work;
    const { threads, canOverlap } = this.#resources;
    const worths = units.map(({ span: { block, keys } }) =>
      worthOfThread(
        2 * block.rows * heads * keys * (width + valueWidth),
        4 * groups * keys * (width + valueWidth),
        this.#resources,
      ),
    );
    const whole = worths.reduce((sum, each) => sum + each, 0);
    const count = Math.max(1, Math.min(canOverlap ? threads : 1, Math.floor(whole)));
    const shares = Array.from({ length: count }, (): Unit[] => []);
    let before = 0;
    for (const [index, unit] of units.entries()) {
      shares[Math.min(count - 1, Math.floor((before / whole) * count))]?.push(unit);
      before += worths[index] ?? 0;
    }
    return shares;
  }

  /** A span that begins and ends with a block. */
  #inBlocks({ block, start, keys }: SpanOfBlocks): SpanOfBlocks {
    const { blockSize } = this.#work;
    const first = Math.floor(start / blockSize);
    const end = Math.ceil((start + keys) / blockSize);
    return { block, start: first * blockSize, keys: (end - first) * blockSize };
  }

  /** Adds the tasks of a unit. Returns how many bounds are used then. */
  #addUnit(
    tasks: ThreadTasks,
    { item, span, limits, blocks }: Unit,
    addressOf: AddressOf,
    bounds: Float32Array,
    used: number,
  ): number {
    const { heads, q, y } = this.#work;
    const { block, start, keys } = span;
    const count = heads * block.rows;
    // All heads have the same bounds.
    for (let row = 0; row < count; row++) {
      const query = block.start + (row % block.rows);
      bounds[used + row] = (limits.first[query] ?? 0) - start;
      bounds[used + count + row] = (limits.end[query] ?? 0) - start;
    }
    const firstKeys = this.#bounds.address + 4 * used;
    const at = (value: number, elements: number): number =>
      this.#base + addressOf(value) + 4 * elements;
    const rows = at(q.value, elementsBefore(q, item, 1, block.start));
    const result = at(y.value, elementsBefore(y, item, 1, block.start));
    for (const plan of this.#plansOf(tasks.thread, block.rows, keys)) {
      const [scoreRows = 0, columns = 0] = plan.numbers;
      const tile = this.#resources.tile(4 * tasks.thread, 4 * scoreRows * columns);
      const scores = tasks.addressOf(tile);
      this.#multiply(tasks, plan.scores, this.#keys, blocks, addressOf, rows, scores);
      const addresses = [scores, firstKeys, firstKeys + 4 * count, this.#keyNumbers.address];
      tasks.addLoop(this.#resources, this.#weights, plan.numbers, addresses);
      this.#multiply(tasks, plan.values, this.#values, blocks, addressOf, scores, result);
    }
    return used + 2 * count;
  }

  /** Multiplies with blocks, whose sums or results follow each other. */
  #multiply(
    tasks: ThreadTasks,
    products: RepeatedProducts,
    reader: BlockReader,
    numbers: readonly number[],
    addressOf: AddressOf,
    left: number,
    result: number,
  ): void {
    let before = 0;
    reader.read(numbers, addressOf, tasks, ({ right, byteOffsets }) => {
      products.addTo(tasks, { left, right, byteOffsets, result, before });
      before += byteOffsets.length;
    });
  }

  /** The plans of all heads, for so many queries and keys. */
  #plansOf(thread: number, rows: number, keys: number): readonly HeadsPlan[] {
    const { heads, groups, queries, width, valueWidth, blockSize, params } = this.#work;
    const sizes = [heads, groups, queries, width, valueWidth, blockSize, rows, keys];
    return this.#plans.of([thread, ...sizes, params.scale].join(), () => this.#plan(rows, keys));
  }

  #plan(rows: number, keys: number): readonly HeadsPlan[] {
    const { blockSize, valueWidth, y } = this.#work;
    const work = this.#attentionOf(rows, keys);
    const block = { start: 0, rows, keys };
    const ofBlock = 4 * blockSize;
    return headRanges(work).map((heads) => {
      const part = { heads, block };
      const source = work.values.v;
      const product = { source, width: valueWidth, scale: 1, isNarrowResult: false, result: y };
      return {
        scores: new RepeatedProducts(
          joinedHeads(scoreProducts(work, part)).map((score) => ({ ...score, columns: blockSize })),
          { continues: false, leftBytes: 0, resultBytes: ofBlock },
          this.#resources,
        ),
        numbers: loopNumbers(heads.count * rows, keys),
        values: new RepeatedProducts(
          joinedHeads(queryProducts(work, part, product)).map((sum) => ({
            ...sum,
            depth: blockSize,
          })),
          { continues: true, leftBytes: ofBlock, resultBytes: 0 },
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

  /** Throws IndexError for a block that is not there. */
  #requireBlocks(table: Int32Array): void {
    const { blockCount, instruction } = this.#work;
    const element = table.findIndex((block) => block < 0 || block >= blockCount);
    if (element < 0) return;
    const [index = 0] = table.subarray(element);
    const fault = { op: 'pagedAttention', instruction, index, element } as const;
    throw IndexError.ofRun({ ...fault, size: blockCount, updated: false });
  }
}

/**
 * The heads of single queries that read the same keys or values are rows of one product, so that these are packed once.
 * Each row has the sums that it has alone.
 */
function joinedHeads(products: readonly MatrixProduct[]): readonly MatrixProduct[] {
  const joined: MatrixProduct[] = [];
  for (const product of products) {
    const last = joined.at(-1);
    if (
      last === undefined ||
      product.rows > 1 ||
      last.right.byteOffset !== product.right.byteOffset
    ) {
      joined.push(product);
      continue;
    }
    const strideOf = (place: 'left' | 'result'): number =>
      (product[place].byteOffset - last[place].byteOffset) / 4 / last.rows;
    joined[joined.length - 1] = {
      ...last,
      rows: last.rows + 1,
      left: { ...last.left, rowStride: strideOf('left') },
      result: { ...last.result, rowStride: strideOf('result') },
    };
  }
  return joined;
}

/** An attention that is not only its logarithms of sums. */
interface WholeAttention extends AttentionForward {
  readonly values: NonNullable<AttentionForward['values']>;
}
