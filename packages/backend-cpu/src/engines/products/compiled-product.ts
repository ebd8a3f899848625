import type { LinkedLoops } from '../../lanes/loop-code.ts';
import { type BatchedProduct, productsOf } from '../../program/work/batched-product.ts';
import type { Epilogue } from './block-loops.ts';
import { addressOf as hostAddress } from '../../memory/host-address.ts';
import type { AddressOf, CompiledPartition } from '../../program/partition.ts';
import {
  placeParts,
  type ProductPart,
  productParts,
  type ProductResources,
  runParts,
  partsWithLoops,
  type PartWithLoops,
} from './run-parts.ts';

/** A call that takes longer than this leaves the event loop free, if other work should go on meanwhile. */
export const LONG_MS = 20;

/**
 * Computes a product on values where they lie, and runs its epilogue. If each thread computes whole rows, the epilogue
 * runs block by block.
 */
export class CompiledProduct implements CompiledPartition {
  readonly #product: BatchedProduct;
  readonly #resources: ProductResources;
  readonly #base: bigint;
  readonly #parts: readonly ProductPart[];
  /** The parts with their loops. Empty if the loops run behind all parts. */
  readonly #withLoops: readonly PartWithLoops[];
  readonly #behind: LinkedLoops | undefined;
  #placed: AddressOf | undefined;
  /** For each part, the addresses that its loops take. */
  #ofLoops: readonly (readonly bigint[])[] = [];
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
    const [matrix, ...others] = products;
    const withLoops =
      epilogue !== undefined && matrix !== undefined && others.length === 0
        ? partsWithLoops(matrix, epilogue.calls, resources)
        : undefined;
    if (withLoops === undefined) {
      this.#parts = productParts(products, resources);
      this.#withLoops = [];
      this.#behind = epilogue?.loops.link(memory, epilogue.calls);
    } else {
      this.#parts = withLoops.map(({ part }) => part);
      this.#withLoops = withLoops;
    }
  }

  run(addressOf: AddressOf, overlap: boolean): Promise<void> | undefined {
    if (addressOf !== this.#placed) this.#place(addressOf);
    // Loops change the addresses that they are given, so each run sets them anew.
    this.#withLoops.forEach(({ part, addresses }, index) => {
      const given = this.#ofLoops[index];
      addresses.forEach(({ word }, at) => {
        part.tasks[word] = given?.[at] ?? 0n;
      });
    });
    // The clock is only read if the time is needed, because reading it takes as long as planning a call.
    const start = overlap || this.#fastestMs === Infinity ? performance.now() : -Infinity;
    const pending = runParts(this.#parts, this.#resources, overlap && this.#fastestMs > LONG_MS);
    if (pending === undefined) return this.#finish(addressOf, start);
    return pending.then(() => this.#finish(addressOf, start));
  }

  #finish(addressOf: AddressOf, start: number): undefined {
    if (start >= 0) this.#fastestMs = Math.min(this.#fastestMs, performance.now() - start);
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
    this.#ofLoops = this.#withLoops.map(({ addresses }) =>
      addresses.map(({ value, byteOffset }) => addressAt(value, byteOffset)),
    );
    this.#placed = addressOf;
  }
}
