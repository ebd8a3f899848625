import {
  fieldOffset,
  repeatedWords,
  repeatMemory,
  TASK_BYTES,
} from '../../emit/products/task-layout.ts';
import type { ProductCode } from '../../emit/products/product-code.ts';
import { addressOf } from '../../memory/host-address.ts';
import type { MatrixProduct } from '../../program/work/matrix-product.ts';
import { packedBytesOf } from './operand-panels.ts';
import { planTasks } from './plan-tasks.ts';
import type { ProductResources } from './run-parts.ts';
import type { ThreadTasks } from './thread-tasks.ts';

const taskWords = TASK_BYTES / 8;
/** By how many bytes operands are moved to find the words that depend on their places. */
const movedBytes = { left: 2 ** 20, right: 2 ** 24, result: 2 ** 28 } as const;

/** How far the operands of a product move from block to block. The right operand lies anywhere. */
type BlockSteps = Readonly<Record<'leftBytes' | 'resultBytes', number>>;

/** Where operands lie. Left operands and results are those of the first block of all. */
interface RepeatedOperands {
  readonly left: number;
  /** The address of the right operands, and how many bytes behind it each of them lies. */
  readonly right: number;
  readonly byteOffsets: readonly number[];
  readonly result: number;
  /** The number of blocks before these, whose sums they continue. */
  readonly before: number;
}

/**
 * Products that are carried out once for each of some blocks, by one task of machine code. The right operand of each
 * block lies anywhere. With `continues`, blocks behind the first one continue its sums. Only one thread at a time may carry
 * them out, because machine code writes where operands lie into the tasks that it repeats.
 */
export class RepeatedProducts {
  readonly #resources: ProductResources;
  readonly #steps: BlockSteps;
  /** The tasks that are repeated. Machine code has their address, so they must stay alive. */
  readonly #tasks: BigUint64Array;
  readonly #address: number;
  readonly #packedBytes: number;

  constructor(
    products: readonly MatrixProduct[],
    { continues, ...steps }: BlockSteps & { readonly continues: boolean },
    resources: ProductResources,
  ) {
    const code = withOnePlace(resources.code);
    this.#resources = resources;
    this.#steps = steps;
    this.#tasks = repeatable(products, continues, code);
    this.#address = Number(addressOf(new Uint8Array(this.#tasks.buffer)));
    this.#packedBytes = packedBytesOf(products, code);
  }

  /** Lets a thread carry out the products of some blocks. */
  addTo(tasks: ThreadTasks, { left, right, byteOffsets, result, before }: RepeatedOperands): void {
    const { leftBytes, resultBytes } = this.#steps;
    tasks.packs(this.#packedBytes);
    tasks.list.add('repeat', {
      routine: this.#resources.code.repeat,
      tasks: this.#address,
      tasksEnd: this.#address + this.#tasks.byteLength,
      ...tasks.addTable(byteOffsets),
      left: left + before * leftBytes,
      leftStep: leftBytes,
      right,
      result: result + before * resultBytes,
      resultStep: resultBytes,
      flagsOffset: 8 * (before === 0 ? repeatedWords.firstFlags : repeatedWords.otherFlags),
    });
  }
}

/**
 * The code without tasks that have both operands where they lie, because `repeat` moves only one of them in a task. What is
 * packed next lies in the right one.
 */
function withOnePlace(code: ProductCode): ProductCode {
  return {
    ...code,
    readsAhead: false,
    tile: (kind, source, rows) =>
      source === 'transposed' ? undefined : code.tile(kind, source, rows),
  };
}

/** The tasks of products, with the words that `repeat` reads. */
function repeatable(
  products: readonly MatrixProduct[],
  continues: boolean,
  code: ProductCode,
): BigUint64Array {
  const planned = planTasks(products, code);
  const words = planned.slice(0, planned.length - taskWords);
  const elsewhere = planTasks(products.map(moved), code);
  const others = continues
    ? planTasks(
        products.map((product) => ({ ...product, continues })),
        code,
      )
    : planned;
  for (let start = 0; start < words.length; start += taskWords) {
    // A task packs one operand, or multiplies; then its left operand may lie where it is, and its result does.
    const place = (operand: keyof typeof movedBytes): number =>
      Array.from({ length: taskWords }, (_, word) => start + word).findIndex(
        (at) => (elsewhere[at] ?? 0n) - (planned[at] ?? 0n) === BigInt(movedBytes[operand]),
      );
    const operand = (['left', 'right'] as const).find((each) => place(each) >= 0);
    const field = operand === undefined ? leftOffset : place(operand);
    const set = (name: keyof typeof repeatedWords, value: bigint | number): void => {
      words[start + repeatedWords[name]] = BigInt(value);
    };
    set('field', 8 * field);
    set('base', planned[start + field] ?? 0n);
    set('moved', repeatMemory[operand ?? 'nothing']);
    set('resultBase', planned[start + wordOf('resultOffset')] ?? 0n);
    set('firstFlags', planned[start + wordOf('flags')] ?? 0n);
    set('otherFlags', others[start + wordOf('flags')] ?? 0n);
  }
  return words;
}

const wordOf = (field: 'leftOffset' | 'resultOffset' | 'flags'): number =>
  fieldOffset('multiply', field) / 8;
const leftOffset = wordOf('leftOffset');

/** The product with all operands elsewhere. */
function moved(product: MatrixProduct): MatrixProduct {
  const byBytes = <Place extends { readonly byteOffset: number }>(
    place: Place,
    operand: keyof typeof movedBytes,
  ): Place => ({ ...place, byteOffset: place.byteOffset + movedBytes[operand] });
  return {
    ...product,
    left: byBytes(product.left, 'left'),
    right: byBytes(product.right, 'right'),
    result: byBytes(product.result, 'result'),
  };
}
