import { setImmediate as nextTurn } from 'node:timers/promises';
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
/** What takes longer than this has work that is under way go first. */
const BUSY_MS = 0.2;

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

/** One product, ready to be made. */
interface Call {
  readonly product: BatchedProduct;
  readonly parts: readonly Part[];
  fastestMs: number;
}

/** Makes products in the memory where values lie, one after the other. */
export class ProductPiece implements CompiledPiece {
  readonly #resources: ProductResources;
  readonly #base: bigint;
  readonly #calls: readonly Call[];

  constructor(
    memory: WebAssembly.Memory,
    products: readonly BatchedProduct[],
    resources: ProductResources,
  ) {
    const { code, threads, canOverlap } = resources;
    this.#resources = resources;
    this.#base = hostAddress(new Uint8Array(memory.buffer));
    this.#calls = products.map((product) => {
      const split = splitProducts(productsOf(product), canOverlap ? threads : 1, code);
      const parts = split.map((part, thread): Part => {
        const frame = createFrame();
        const tasks = planTasks(part, code);
        const packed = resources.packedOf(thread, packedBytesOf(part, code));
        frame[operandNames.indexOf('packed')] = hostAddress(packed);
        frame[operandNames.indexOf('tasks')] = hostAddress(new Uint8Array(tasks.buffer));
        return { frame, tasks, packed };
      });
      return { product, parts, fastestMs: Number.POSITIVE_INFINITY };
    });
  }

  async run(addressOf: AddressOf, overlap: boolean): Promise<void> {
    for (const call of this.#calls) {
      this.#bind(call, addressOf);
      const isOverlapped = overlap && call.fastestMs > LONG_MS && this.#resources.canOverlap;
      if (overlap && !isOverlapped && call.fastestMs > BUSY_MS) await nextTurn();
      const start = performance.now();
      const [first, ...others] = call.parts;
      const elsewhere = (isOverlapped ? call.parts : others).map(({ frame }) =>
        this.#runElsewhere(frame),
      );
      if (first !== undefined && !isOverlapped) this.#resources.code.run(first.frame);
      if (elsewhere.length > 0) await Promise.all(elsewhere);
      call.fastestMs = Math.min(call.fastestMs, performance.now() - start);
    }
  }

  #bind({ product, parts }: Call, addressOf: AddressOf): void {
    const { left, right, result, addend } = product;
    const values = [left.value, right.value, result, addend?.value ?? result];
    for (const [index, value] of values.entries()) {
      const address = this.#base + BigInt(addressOf(value));
      for (const { frame } of parts) frame[index] = address;
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
