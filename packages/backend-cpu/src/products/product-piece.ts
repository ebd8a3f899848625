import type { AddressOf, CompiledPiece } from '../compile/compiled-piece.ts';
import { addressOf as hostAddress } from '../onnx/runtime/api.ts';
import { type BatchedProduct, productsOf } from './batched-product.ts';
import { type ProductPart, productParts, type ProductResources, runParts } from './run-parts.ts';

/** A call that takes longer than this leaves the event loop free where other work is to go on. */
export const longMs = 20;

/** Makes a product in the memory where values lie. */
export class ProductPiece implements CompiledPiece {
  readonly #product: BatchedProduct;
  readonly #resources: ProductResources;
  readonly #base: bigint;
  readonly #parts: readonly ProductPart[];
  #fastestMs = Number.POSITIVE_INFINITY;

  constructor(memory: WebAssembly.Memory, product: BatchedProduct, resources: ProductResources) {
    this.#product = product;
    this.#resources = resources;
    this.#base = hostAddress(new Uint8Array(memory.buffer));
    this.#parts = productParts(productsOf(product), resources);
  }

  async run(addressOf: AddressOf, overlap: boolean): Promise<void> {
    const { left, right, result, addend } = this.#product;
    const values = [left.value, right.value, result, addend?.value ?? result];
    const addresses = values.map((value) => this.#base + BigInt(addressOf(value)));
    const start = performance.now();
    await runParts(this.#parts, addresses, this.#resources, overlap && this.#fastestMs > longMs);
    this.#fastestMs = Math.min(this.#fastestMs, performance.now() - start);
  }
}
