import { beginGroups } from './begin-groups.ts';
import { type GroupedProduct, productsOfGroups } from '../../program/work/grouped-product.ts';
import { LONG_MS } from './compiled-product.ts';
import {
  placeParts,
  type ProductPart,
  productParts,
  type ProductResources,
  runParts,
} from './run-parts.ts';
import { addressOf as hostAddress } from '../../memory/host-address.ts';
import type { AddressOf, CompiledPartition } from '../../program/partition.ts';

/** Computes products of rows in groups on values where they lie. Each run reads anew how many rows a group has. */
export class CompiledGroupedProduct implements CompiledPartition {
  readonly #memory: WebAssembly.Memory;
  readonly #product: GroupedProduct;
  readonly #resources: ProductResources;
  readonly #base: bigint;
  #planned: { readonly counts: string; readonly parts: readonly ProductPart[] } | undefined;
  #fastestMs = Number.POSITIVE_INFINITY;

  constructor(memory: WebAssembly.Memory, product: GroupedProduct, resources: ProductResources) {
    this.#memory = memory;
    this.#product = product;
    this.#resources = resources;
    this.#base = hostAddress(new Uint8Array(memory.buffer));
  }

  /** Rejects with BackendError for counts that cannot be numbers of rows. */
  async run(addressOf: AddressOf, overlap: boolean): Promise<void> {
    const { left, right, result } = this.#product;
    const counts = beginGroups(this.#memory, this.#product, addressOf);
    const addresses = [left.value, right.value, result, result].map(
      (value) => this.#base + BigInt(addressOf(value)),
    );
    const start = performance.now();
    const isLong = this.#fastestMs > LONG_MS;
    const parts = this.#partsOf(counts);
    placeParts(parts, addresses);
    await runParts(parts, this.#resources, overlap && isLong);
    this.#fastestMs = Math.min(this.#fastestMs, performance.now() - start);
  }

  #partsOf(counts: readonly number[]): readonly ProductPart[] {
    const key = counts.join();
    if (this.#planned?.counts !== key) {
      const parts = productParts(productsOfGroups(this.#product, counts), this.#resources);
      this.#planned = { counts: key, parts };
    }
    return this.#planned.parts;
  }
}
