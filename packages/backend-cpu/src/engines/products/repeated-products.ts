import { operandNames, TASK_BYTES } from '../../emit/products/task-layout.ts';
import { addressOf } from '../../memory/host-address.ts';
import type { MatrixProduct } from '../../program/work/matrix-product.ts';
import { planTasks } from './plan-tasks.ts';
import { partOf, type ProductPart, type ProductResources, runTasks } from './run-parts.ts';

const taskWords = TASK_BYTES / 8;
/** By how many bytes operands are moved to find the words that depend on their places. */
const movedBytes = { left: 2 ** 20, right: 2 ** 24, result: 2 ** 28 } as const;

/** The operands of a product that lie elsewhere each time. */
type Moving = keyof typeof movedBytes;

/** Tasks that are carried out once for each of some blocks, and the words of them that say where operands lie. */
interface Template {
  readonly words: BigUint64Array;
  readonly places: Readonly<Record<Moving, readonly Place[]>>;
}

/** The index of a word, and its number for the first block. */
interface Place {
  readonly word: number;
  readonly byteOffset: number;
}

/** How far the operands of a product move from block to block. The right operand lies anywhere. */
type BlockSteps = Readonly<Record<'leftBytes' | 'resultBytes', number>>;

/**
 * Products that are carried out once for each of some blocks, by one call of machine code. The right operand of each
 * block lies anywhere. With `continues`, blocks behind the first one continue its sums.
 */
export class RepeatedProducts {
  readonly #resources: ProductResources;
  readonly #steps: BlockSteps;
  readonly #first: Template;
  readonly #others: Template;
  readonly #part: ProductPart;
  readonly #tasks: TaskMemory;

  constructor(
    products: readonly MatrixProduct[],
    { continues, ...steps }: BlockSteps & { readonly continues: boolean },
    tasks: TaskMemory,
    resources: ProductResources,
  ) {
    this.#resources = resources;
    this.#steps = steps;
    this.#first = templateOf(products, resources);
    this.#others = continues
      ? continuing(this.#first, planTasks(products.map(continued), resources.code))
      : this.#first;
    this.#tasks = tasks;
    this.#part = partOf(products, this.#first.words, 0, resources);
  }

  /**
   * Carries out the products of some blocks, before which there are `before` others. `rightBytes` says where the right
   * operand of each block lies, in bytes behind its address. The other addresses are those for the first block of all.
   */
  run(rightBytes: readonly number[], addresses: readonly bigint[], before: number): void {
    const each = this.#first.words.length;
    const { words, halves, address } = this.#tasks.of(each * rightBytes.length + taskWords);
    for (const [index, bytes] of rightBytes.entries()) {
      const block = before + index;
      const template = block === 0 ? this.#first : this.#others;
      const start = index * each;
      words.set(template.words, start);
      const { left, right, result } = template.places;
      const { leftBytes, resultBytes } = this.#steps;
      move(halves, start, right, bytes);
      if (block === 0) continue;
      move(halves, start, left, block * leftBytes);
      move(halves, start, result, block * resultBytes);
    }
    words[each * rightBytes.length] = 0n;
    const { frame } = this.#part;
    frame.set(addresses);
    frame[operandNames.indexOf('tasks')] = address;
    runTasks(this.#resources, frame);
  }
}

/** Memory for tasks, which products that run one after the other share. */
export class TaskMemory {
  #words = new BigUint64Array(0);
  #halves = new Uint32Array(0);
  #address = 0n;

  /** Memory of at least `count` words: as words, as their halves, and its address. */
  of(count: number): {
    readonly words: BigUint64Array;
    readonly halves: Uint32Array;
    readonly address: bigint;
  } {
    if (this.#words.length < count) {
      this.#words = new BigUint64Array(
        new ArrayBuffer(8 * Math.max(count, 2 * this.#words.length)),
      );
      this.#halves = new Uint32Array(this.#words.buffer);
      this.#address = addressOf(new Uint8Array(this.#words.buffer));
    }
    return { words: this.#words, halves: this.#halves, address: this.#address };
  }
}

/** Adds bytes to words. A number of 64 bits is written as two halves, which is faster than a BigInt. */
function move(halves: Uint32Array, start: number, places: readonly Place[], bytes: number): void {
  for (const { word, byteOffset } of places) {
    const moved = byteOffset + bytes;
    halves[2 * (start + word)] = moved % 2 ** 32;
    halves[2 * (start + word) + 1] = Math.floor(moved / 2 ** 32);
  }
}

function continued(product: MatrixProduct): MatrixProduct {
  return { ...product, continues: true };
}

/** The same tasks, whose products continue sums. Operands lie in the same places. */
function continuing({ places }: Template, whole: BigUint64Array): Template {
  return { places, words: whole.slice(0, whole.length - taskWords) };
}

/** Finds the words that depend on where an operand lies, by planning the same products with all operands elsewhere. */
function templateOf(products: readonly MatrixProduct[], { code }: ProductResources): Template {
  const whole = planTasks(products, code);
  const words = whole.slice(0, whole.length - taskWords);
  const moved = planTasks(products.map(elsewhere), code);
  const placesOf = (operand: Moving): Place[] =>
    [...words].flatMap((own, word) =>
      (moved[word] ?? own) - own === BigInt(movedBytes[operand])
        ? [{ word, byteOffset: Number(own) }]
        : [],
    );
  return {
    words,
    places: { left: placesOf('left'), right: placesOf('right'), result: placesOf('result') },
  };
}

function elsewhere(product: MatrixProduct): MatrixProduct {
  const moved = <Place extends { readonly byteOffset: number }>(
    place: Place,
    operand: Moving,
  ): Place => ({ ...place, byteOffset: place.byteOffset + movedBytes[operand] });
  return {
    ...product,
    left: moved(product.left, 'left'),
    right: moved(product.right, 'right'),
    result: moved(product.result, 'result'),
  };
}
