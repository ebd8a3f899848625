import type { AddressOf, CompiledPiece } from '../compile/compiled-piece.ts';
import { addressOf as hostAddress } from '../onnx/runtime/api.ts';
import { type BatchedProduct, productsOf } from './batched-product.ts';
import { packedBytesOf, planTasks } from './plan-tasks.ts';
import type { ProductCode } from './product-code.ts';
import { createFrame, type Frame } from './product-machine.ts';
import { splitProducts } from './split-products.ts';
import { operandNames } from './task-layout.ts';

/** A call that takes longer than this leaves the event loop free where other work is to go on. */
const LONG_MS = 20;

/** What pieces of one backend share. */
export interface ProductResources {
  readonly code: ProductCode;
  readonly threads: number;
  /** Memory for packed operands of a thread, which all pieces share that need no more. */
  packedOf(thread: number, byteLength: number): Uint8Array;
  /** Whether calls may run on other threads. */
  readonly canOverlap: boolean;
}

/** What one thread does of a product. */
interface Part {
  readonly frame: Frame;
  /** The frame has the addresses of both. */
  readonly tasks: BigUint64Array;
  readonly packed: Uint8Array;
}

/** Makes a product in the memory where values lie. */
export class ProductPiece implements CompiledPiece {
  readonly #product: BatchedProduct;
  readonly #resources: ProductResources;
  readonly #base: bigint;
  readonly #parts: readonly Part[];
  #fastestMs = Number.POSITIVE_INFINITY;

  constructor(memory: WebAssembly.Memory, product: BatchedProduct, resources: ProductResources) {
    const { code, threads, canOverlap } = resources;
    this.#product = product;
    this.#resources = resources;
    this.#base = hostAddress(new Uint8Array(memory.buffer));
    const split = splitProducts(productsOf(product), canOverlap ? threads : 1, code);
    this.#parts = split.map((part, thread): Part => {
      const frame = createFrame();
      const tasks = planTasks(part, code);
      const packed = resources.packedOf(thread, packedBytesOf(part, code));
      frame[operandNames.indexOf('packed')] = hostAddress(packed);
      frame[operandNames.indexOf('tasks')] = hostAddress(new Uint8Array(tasks.buffer));
      return { frame, tasks, packed };
    });
  }

  async run(addressOf: AddressOf, overlap: boolean): Promise<void> {
    this.#bind(addressOf);
    const { code, canOverlap } = this.#resources;
    const isOverlapped = overlap && this.#fastestMs > LONG_MS && canOverlap;
    const start = performance.now();
    const [first, ...others] = this.#parts;
    const elsewhere = (isOverlapped ? this.#parts : others).map(({ frame }) =>
      this.#runElsewhere(frame),
    );
    if (first !== undefined && !isOverlapped) code.run(first.frame);
    if (elsewhere.length > 0) await Promise.all(elsewhere);
    this.#fastestMs = Math.min(this.#fastestMs, performance.now() - start);
  }

  #bind(addressOf: AddressOf): void {
    const { left, right, result, addend } = this.#product;
    const values = [left.value, right.value, result, addend?.value ?? result];
    for (const [index, value] of values.entries()) {
      const address = this.#base + BigInt(addressOf(value));
      for (const { frame } of this.#parts) frame[index] = address;
    }
  }

  /** On a thread of Node's pool. */
  #runElsewhere(frame: Frame): Promise<void> {
    return new Promise((resolve, reject) => {
      this.#resources.code.run.async(frame, (error) =>
        error === null ? resolve() : reject(error),
      );
    });
  }
}
