import { BackendError } from '@shardwise/core/spec';
import {
  type LinkedLoops,
  type LoopCall,
  type LoopCode,
  loopNumbers,
} from '../../lanes/loop-code.ts';
import type { LaneLoop } from '../../lanes/lane-loop.ts';
import { type ProductPart, productParts, type ProductResources } from '../products/run-parts.ts';
import {
  type AttentionBackward,
  type AttentionForward,
  type AttentionResult,
  type AttentionWork,
  wholeHeads,
} from '../../program/work/attention-work.ts';
import {
  logSumsLoop,
  narrowingLoop,
  slopesLoop,
  type TileDType,
  weightsLoop,
} from './attention-loops.ts';
import {
  elementsBefore,
  keyHead,
  keyProducts,
  owedProducts,
  type Part,
  queryProducts,
  scoreProducts,
  staircase,
} from './attention-products.ts';
import { rowCopyKey } from '../../emit/wasm/move/row-copy.ts';
import { type HeadRange, headRanges, rowBlocks } from './row-blocks.ts';
import { addressOf as hostAddress } from '../../memory/host-address.ts';
import type { MatrixProduct } from '../../program/work/matrix-product.ts';

/** Where an operand begins: in a value, or at an address outside the memory of values. */
interface Place {
  readonly value: number;
  readonly address: bigint | undefined;
  readonly byteOffset: number;
}

type PlannedStep =
  | {
      readonly kind: 'products';
      readonly parts: readonly ProductPart[];
      /** Indices of the places of the left operand, the right operand, the result and the addend. */
      readonly operands: readonly number[];
    }
  | { readonly kind: 'loops'; readonly loops: LinkedLoops };

/** The steps of attention, in order, and the places that they refer to by index. */
export interface AttentionPlan {
  readonly places: readonly Place[];
  /** Results that are filled with zeros first, because the steps do not write every element. */
  readonly zeroed: readonly { readonly value: number; readonly byteLength: number }[];
  readonly steps: readonly PlannedStep[];
  /** Memory outside the arena that places point to. The plan keeps it alive. */
  readonly kept: readonly Uint8Array[];
}

export function planAttention(
  memory: WebAssembly.Memory,
  work: AttentionWork,
  resources: ProductResources,
  loops: LoopCode,
): AttentionPlan {
  const planner = new Planner(memory, work, resources, loops);
  return work.kind === 'forward' ? planner.forward(work) : planner.backward(work);
}

/** The plan that rounds sums over queries to bf16. Sums have the shape [count, keys, width]. */
export function planNarrowing(
  memory: WebAssembly.Memory,
  work: AttentionBackward,
  sums: NarrowedSums,
  resources: ProductResources,
  loops: LoopCode,
): AttentionPlan {
  return new Planner(memory, work, resources, loops).narrowing(sums);
}

/** Sums of one item, a value in f32, and the result that they are rounded to. */
interface NarrowedSums {
  readonly sums: number;
  readonly result: AttentionResult;
  readonly width: number;
}

class Planner {
  readonly #memory: WebAssembly.Memory;
  readonly #work: AttentionWork;
  readonly #resources: ProductResources;
  readonly #loops: LoopCode;
  readonly #places: Place[] = [];
  readonly #steps: PlannedStep[] = [];
  readonly #kept: Uint8Array[] = [];
  readonly #tile: TileDType;
  /** The size of a tile: the elements of the largest block, for all heads that are computed together. */
  readonly #tileElements: number;

  constructor(
    memory: WebAssembly.Memory,
    work: AttentionWork,
    resources: ProductResources,
    loops: LoopCode,
  ) {
    this.#memory = memory;
    this.#work = work;
    this.#resources = resources;
    this.#loops = loops;
    this.#tile = { rounding: work.params.rounding, isNarrow: work.isNarrow };
    const heads = Math.max(...headRanges(work).map(({ count }) => count));
    this.#tileElements = heads * Math.max(...rowBlocks(work).map(({ rows, keys }) => rows * keys));
  }

  forward(work: AttentionForward): AttentionPlan {
    const { q, k, values, logSumExp } = work;
    const [scores, weights] = this.#tiles(1);
    const addend = this.#addend();
    for (const heads of headRanges(work)) {
      for (const block of rowBlocks(work)) {
        const part = { heads, block };
        this.#multiply(scoreProducts(work, part), [
          this.#value(q.value),
          this.#value(k.value),
          scores,
          addend,
        ]);
        const tiles = work.isNarrow && values !== null ? [scores, weights] : [scores];
        this.#rows(part, this.#weightsRoutine(work), tiles, logSumExp === null ? [] : [logSumExp]);
        if (values === null) continue;
        const { v, y } = values;
        const product = {
          source: v,
          width: work.valueWidth,
          scale: 1,
          isNarrowResult: y.isNarrow,
          result: y,
        };
        this.#multiply(queryProducts(work, part, product), [
          weights,
          this.#value(v.value),
          this.#value(y.value),
        ]);
      }
    }
    return this.#finish([]);
  }

  backward(work: AttentionBackward): AttentionPlan {
    const { q, k, v, dy, logSumExp, delta, dq, dk, dv, width, valueWidth } = work;
    const [scores, weights] = this.#tiles(1);
    const [owed, slopes] = this.#tiles(2);
    const addend = this.#addend();
    const at = { q: this.#value(q.value), k: this.#value(k.value), dy: this.#value(dy.value) };
    const { scale } = work.params;
    const hasBounds = work.block?.hasBounds === true;
    const routine = this.#routine(`slopes ${hasBounds}`, () => slopesLoop(this.#tile, hasBounds));
    const tiles = work.isNarrow ? [scores, owed, weights, slopes] : [scores, owed];
    const sums = {
      k: dk && this.#sums(work, dk, width),
      v: dv && this.#sums(work, dv, valueWidth),
    };
    for (const heads of headRanges(work)) {
      for (const sum of [sums.k, sums.v]) sum?.begin(heads);
      // The last queries come first. They see all keys that earlier queries see, so each sum begins with the longest
      // block.
      for (const block of rowBlocks(work).toReversed()) {
        const part = { heads, block };
        this.#multiply(scoreProducts(work, part), [at.q, at.k, scores, addend]);
        this.#multiply(owedProducts(work, part), [at.dy, this.#value(v.value), owed]);
        this.#rows(part, routine, tiles.slice(0, 2), [logSumExp, delta], tiles.slice(2));
        sums.v?.add(part, { source: dy, tile: weights, scale: 1 });
        if (dq !== null) {
          const isComplete = work.block?.isComplete ?? true;
          const product = {
            source: k,
            width,
            scale: isComplete ? scale : 1,
            isNarrowResult: dq.isNarrow,
            result: dq,
            continues: work.block?.continues ?? false,
          };
          const places = [slopes, at.k, this.#value(dq.value)];
          this.#multiply(queryProducts(work, part, product), places);
        }
        sums.k?.add(part, { source: q, tile: slopes, scale });
      }
      for (const sum of [sums.k, sums.v]) sum?.end(heads);
    }
    for (const sum of [sums.k, sums.v]) sum?.finish();
    // No causal query sees the keys behind the last query, so that nothing writes their gradients.
    const isSeen = !work.params.causal || work.queries >= work.keys;
    return this.#finish(isSeen ? [] : [sums.k, sums.v].flatMap((sum) => sum?.whole ?? []));
  }

  narrowing({ sums, result, width }: NarrowedSums): AttentionPlan {
    const { groups, keys } = this.#work;
    this.#narrow({ sums: this.#value(sums), result, width, rows: keys, first: 0, count: groups });
    return this.#finish([]);
  }

  /**
   * Plans sums over queries. They are made in the result itself, or in f32 aside if several terms are added for a bf16
   * result.
   */
  #sums(work: AttentionBackward, result: AttentionResult, width: number): KeySumsPlan {
    const { batch, keyBatch, heads, groups, keys } = work;
    const isShared = keyBatch !== batch;
    const isSummed = rowBlocks(work).length > 1 || heads > groups || isShared;
    const isAside = result.isNarrow && isSummed;
    const matrix = keys * width;
    const own = (range: HeadRange): number => keyHead(work, range.first);
    const count = (range: HeadRange): number =>
      keyHead(work, range.first + range.count - 1) - own(range) + 1;
    const most = isShared ? groups : Math.max(...headRanges(work).map(count));
    const place = isAside ? this.#aside(4 * most * matrix) : this.#value(result.value);
    const begun = new Set(work.block === null ? [] : Array(keyBatch * groups).keys());
    const seen = work.params.causal ? Math.min(keys, work.queries) : keys;
    const narrow = (from: number, count: number): void =>
      this.#narrow({ sums: place, result, width, rows: seen, first: from, count });
    let first = 0;
    return {
      whole: {
        value: result.value,
        byteLength: result.byteLength,
      },
      begin: (range) => {
        if (!isAside || isShared) return;
        const next = own(range);
        // Head ranges of the same group continue its sum.
        if (next !== first) begun.clear();
        first = next;
      },
      add: (part, { source, tile, scale }) => {
        const product = {
          source,
          width,
          scale,
          isNarrowResult: result.isNarrow && !isAside,
          result: isAside ? wholeHeads(groups, keys, width) : result,
        };
        const products = keyProducts(work, part, product, { first, begun });
        const places = [tile, this.#value(source.value), place, place];
        // Products that add to the same sum run one after the other, on one thread.
        this.#multiply(products, places, heads > groups || isShared);
      },
      end: (range) => {
        const isLast = (range.first + range.count) % (heads / groups) === 0;
        if (isAside && !isShared && isLast) narrow(first, count(range));
      },
      finish: () => {
        if (isAside && isShared) narrow(0, groups);
      },
    };
  }

  /** Rounds the sums of `count` heads, from `first` on, to bf16. */
  #narrow(of: {
    readonly sums: number;
    readonly result: AttentionResult;
    readonly width: number;
    readonly rows: number;
    readonly first: number;
    readonly count: number;
  }): void {
    const { sums, result, width, rows, first, count } = of;
    const { groups, keys } = this.#work;
    const routine = this.#routine('narrowing', narrowingLoop);
    const numbers = loopNumbers(rows, width);
    const calls = Array.from({ length: count }, (_, at): readonly LoopCall[] => {
      const sum = this.#moved(sums, 4 * at * keys * width);
      const target = this.#moved(
        this.#value(result.value),
        2 * elementsBefore(result, first + at, groups),
      );
      if (result.rowStride === width) return [{ routine, numbers, values: [sum, target] }];
      // If the rows of the result do not lie together, they are rounded in place in the sum, and then copied.
      return [
        { routine, numbers, values: [sum, sum] },
        {
          routine: this.#rowCopy(),
          numbers: [rows, 2 * width, 2 * result.rowStride, 2 * width],
          values: [sum, target],
        },
      ];
    });
    this.#steps.push({ kind: 'loops', loops: this.#loops.link(this.#memory, calls.flat()) });
  }

  /** Makes a tile of f32, and the tile that products read: another one of bf16, or the same one. */
  #tiles(number: 1 | 2): [number, number] {
    const bytes = 4 * this.#tileElements;
    const wide = this.#shared(2 * number - 2, bytes);
    return [wide, this.#work.isNarrow ? this.#shared(2 * number - 1, bytes / 2) : wide];
  }

  /** The place of what is added to scores: the mask, the staircase, or memory that nothing reads. */
  #addend(): number {
    const { mask, params } = this.#work;
    if (mask !== null) return this.#value(mask.value);
    if (!params.causal) return this.#aside(0);
    const stairs = staircase(this.#work);
    return this.#outside(new Uint8Array(stairs.buffer));
  }

  #weightsRoutine({ values, logSumExp, block }: AttentionForward): bigint {
    const spec = { hasLogSums: logSumExp !== null, hasBounds: block?.hasBounds === true };
    if (values === null) {
      return this.#routine(`log sums ${spec.hasBounds}`, () => logSumsLoop(spec.hasBounds));
    }
    return this.#routine(`weights ${spec.hasLogSums} ${spec.hasBounds}`, () =>
      weightsLoop(this.#tile, spec),
    );
  }

  #routine(name: string, build: () => LaneLoop): bigint {
    const { rounding, isNarrow } = this.#tile;
    return placed(this.#loops.routine(`attention ${name} ${rounding} ${isNarrow}`, build));
  }

  /** The routine that copies rows, which kernels use too. */
  #rowCopy(): bigint {
    const source = { kind: 'row copy', loops: 1 } as const;
    return placed(this.#loops.routine(rowCopyKey(1), () => source));
  }

  /** Adds a loop over the rows of a tile. Each value in `ofRows` has one f32 number for each query. */
  #rows(
    { heads, block }: Part,
    routine: bigint,
    tiles: readonly number[],
    ofRows: readonly number[],
    results: readonly number[] = [],
  ): void {
    const { queries, block: ofLarger } = this.#work;
    // If a block has all queries, the rows of all heads follow each other, so that one call is enough.
    const isWhole = block.rows === queries && ofLarger === null;
    const rowsOfHead = ofLarger?.rowsOfHead ?? queries;
    const bounds =
      ofLarger?.hasBounds === true
        ? [ofLarger.firstKeys, ofLarger.endKeys, ofLarger.keyNumbers]
        : [];
    const calls = Array.from({ length: isWhole ? 1 : heads.count }, (_, at): LoopCall => {
      const first = at * block.rows * block.keys;
      const tileAt = (tile: number): number => this.#moved(tile, this.#bytesOfTile(tile) * first);
      const queryBytes = 4 * ((heads.first + at) * rowsOfHead + block.start);
      return {
        routine,
        numbers: loopNumbers(isWhole ? heads.count * queries : block.rows, block.keys),
        values: [
          ...tiles.map(tileAt),
          ...ofRows.map((value) => this.#moved(this.#value(value), queryBytes)),
          ...results.map(tileAt),
          ...bounds.map((value) => this.#value(value)),
        ],
      };
    });
    this.#steps.push({ kind: 'loops', loops: this.#loops.link(this.#memory, calls) });
  }

  readonly #narrowTiles = new Set<number>();

  #bytesOfTile(tile: number): number {
    return this.#narrowTiles.has(tile) ? 2 : 4;
  }

  #multiply(
    products: readonly MatrixProduct[],
    operands: readonly number[],
    inOrder = false,
  ): void {
    const resources = inOrder ? { ...this.#resources, threads: 1 } : this.#resources;
    const [left = 0, right = 0, result = 0, addend = result] = operands;
    const parts = productParts(products, resources);
    this.#steps.push({ kind: 'products', parts, operands: [left, right, result, addend] });
  }

  #shared(slot: number, byteLength: number): number {
    const place = this.#outside(this.#resources.tile(slot, byteLength));
    if (slot % 2 === 1) this.#narrowTiles.add(place);
    return place;
  }

  #aside(byteLength: number): number {
    return this.#outside(new Uint8Array(byteLength + 64));
  }

  #outside(bytes: Uint8Array): number {
    this.#kept.push(bytes);
    return this.#place({ value: -1, address: hostAddress(bytes), byteOffset: 0 });
  }

  readonly #byValue = new Map<number, number>();

  #value(value: number): number {
    const known =
      this.#byValue.get(value) ?? this.#place({ value, address: undefined, byteOffset: 0 });
    this.#byValue.set(value, known);
    return known;
  }

  #moved(place: number, byteOffset: number): number {
    const from = this.#places[place];
    if (from === undefined) throw new RangeError(`no place ${place}`);
    return byteOffset === 0 ? place : this.#place({ ...from, byteOffset });
  }

  #place(place: Place): number {
    return this.#places.push(place) - 1;
  }

  #finish(zeroed: AttentionPlan['zeroed']): AttentionPlan {
    return { places: this.#places, zeroed, steps: this.#steps, kept: this.#kept };
  }
}

/** The address of a routine. Throws BackendError if there is none. */
export function placed(routine: bigint | undefined): bigint {
  if (routine !== undefined) return routine;
  throw new BackendError({
    asked: 'attention in machine code',
    found: 'a system that no longer gives executable memory',
    todo: "Use cpu({ loops: 'webassembly' })",
  });
}

/** The plan of sums over queries, which is made one head range after the other. */
interface KeySumsPlan {
  readonly whole: AttentionPlan['zeroed'][number];
  begin(range: HeadRange): void;
  add(
    part: Part,
    product: {
      readonly source: AttentionBackward['q'];
      readonly tile: number;
      readonly scale: number;
    },
  ): void;
  end(range: HeadRange): void;
  finish(): void;
}
