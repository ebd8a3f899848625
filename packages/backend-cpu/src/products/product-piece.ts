import type { AddressOf, CompiledPiece } from '../compile/compiled-piece.ts';
import type { LinkedLoops } from '../loops/loop-code.ts';
import { addressOf as hostAddress } from '../onnx/runtime/api.ts';
import { type BatchedProduct, productsOf } from './batched-product.ts';
import type { CallAddress, Epilogue } from './block-loops.ts';
import { planTasksWithLoops } from './plan-tasks.ts';
import {
  partOf,
  placeParts,
  type ProductPart,
  productParts,
  type ProductResources,
  runParts,
} from './run-parts.ts';

/** A call that takes longer than this leaves the event loop free where other work is to go on. */
export const longMs = 20;

/** Makes a product in the memory where values lie, and runs its epilogue: block by block where one thread makes all rows. */
export class ProductPiece implements CompiledPiece {
  readonly #product: BatchedProduct;
  readonly #resources: ProductResources;
  readonly #base: bigint;
  readonly #parts: readonly ProductPart[];
  /** Of the tasks of the only part; none where loops run behind all parts. */
  readonly #addresses: readonly CallAddress[];
  readonly #behind: LinkedLoops | undefined;
  #placed: AddressOf | undefined;
  #ofLoops: readonly bigint[] = [];
  #fastestMs = Number.POSITIVE_INFINITY;

  constructor(
    memory: WebAssembly.Memory,
    product: BatchedProduct,
    resources: ProductResources,
    epilogue?: Epilogue,
  ) {
    this.#product = product;
    this.#resources = resources;
    this.#base = hostAddress(new Uint8Array(memory.buffer));
    const products = productsOf(product);
    const parts = productParts(products, resources);
    const [matrix, ...others] = products;
    const isOne = parts.length === 1 && matrix !== undefined && others.length === 0;
    if (epilogue !== undefined && isOne) {
      const tasks = planTasksWithLoops(matrix, resources.code, epilogue.calls);
      this.#parts = [partOf(products, tasks.words, 0, resources)];
      this.#addresses = tasks.addresses;
    } else {
      this.#parts = parts;
      this.#addresses = [];
      this.#behind = epilogue?.loops.link(memory, epilogue.calls);
    }
  }

  async run(addressOf: AddressOf, overlap: boolean): Promise<void> {
    if (addressOf !== this.#placed) this.#place(addressOf);
    // Loops move addresses on that they are given.
    for (const [at, { word }] of this.#addresses.entries()) {
      for (const { tasks } of this.#parts) tasks[word] = this.#ofLoops[at] ?? 0n;
    }
    const start = performance.now();
    await runParts(this.#parts, this.#resources, overlap && this.#fastestMs > longMs);
    this.#fastestMs = Math.min(this.#fastestMs, performance.now() - start);
    this.#behind?.run(addressOf);
  }

  #place(addressOf: AddressOf): void {
    const { left, right, result, addend } = this.#product;
    const values = [left.value, right.value, result, addend?.value ?? result];
    const addressAt = (value: number, byteOffset = 0): bigint =>
      this.#base + BigInt(addressOf(value) + byteOffset);
    placeParts(
      this.#parts,
      values.map((value) => addressAt(value)),
    );
    this.#ofLoops = this.#addresses.map(({ value, byteOffset }) => addressAt(value, byteOffset));
    this.#placed = addressOf;
  }
}
