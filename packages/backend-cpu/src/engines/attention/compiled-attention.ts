import { nextTurn } from '@shardwise/core/base';
import { LONG_MS } from '../products/compiled-product.ts';
import { placeParts, type ProductResources, runParts } from '../products/run-parts.ts';
import type { AttentionPlan } from './plan-attention.ts';
import { addressOf as hostAddress } from '../../memory/host-address.ts';
import type { AddressOf, CompiledPartition } from '../../program/partition.ts';

/**
 * Computes attention or its gradients as it was planned, block by block. The scores of one block at a time lie in memory
 * that all attention shares.
 */
export class CompiledAttention implements CompiledPartition {
  readonly #memory: WebAssembly.Memory;
  readonly #base: bigint;
  readonly #plan: AttentionPlan;
  readonly #resources: ProductResources;
  #placed: AddressOf | undefined;
  #addressOfPlace: AddressOf = () => 0;

  constructor(memory: WebAssembly.Memory, plan: AttentionPlan, resources: ProductResources) {
    this.#memory = memory;
    this.#base = hostAddress(new Uint8Array(memory.buffer));
    this.#resources = resources;
    this.#plan = plan;
  }

  async run(addressOf: AddressOf, overlap: boolean): Promise<void> {
    const { zeroed, steps } = this.#plan;
    if (addressOf !== this.#placed) this.#place(addressOf);
    for (const { value, byteLength } of zeroed) {
      new Uint8Array(this.#memory.buffer, addressOf(value), byteLength).fill(0);
    }
    let start = performance.now();
    for (const step of steps) {
      if (step.kind === 'loops') step.loops.run(this.#addressOfPlace);
      else {
        const pending = runParts(step.parts, this.#resources, false);
        if (pending !== undefined) await pending;
      }
      if (!overlap || performance.now() - start < LONG_MS) continue;
      await nextTurn();
      start = performance.now();
    }
  }

  #place(addressOf: AddressOf): void {
    const { places, steps } = this.#plan;
    const addresses = places.map(({ value, address, byteOffset }) =>
      address === undefined
        ? this.#base + BigInt(addressOf(value) + byteOffset)
        : address + BigInt(byteOffset),
    );
    const at = (place: number): bigint => addresses[place] ?? 0n;
    for (const step of steps) {
      if (step.kind === 'products') placeParts(step.parts, step.operands.map(at));
    }
    this.#addressOfPlace = (place) => Number(at(place) - this.#base);
    this.#placed = addressOf;
  }
}
