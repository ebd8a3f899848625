import { setImmediate as nextTurn } from 'node:timers/promises';
import type { AddressOf, CompiledPiece } from '../compile/compiled-piece.ts';
import { callThreads } from '../onnx/runtime/call-threads.ts';
import { addressOf as hostAddress } from '../onnx/runtime/api.ts';
import { type BatchedProduct, productsOf } from './batched-product.ts';
import { planTasks } from './plan-tasks.ts';
import type { ProductCode } from './product-code.ts';
import { createFrame, type Frame } from './product-machine.ts';
import { operandNames } from './task-layout.ts';

/** A call that takes longer than this leaves the event loop free where other work is to go on. */
const LONG_MS = 20;

/** What takes longer than this has work that is under way go first. */
const BUSY_MS = 0.2;

/** One product, ready to be made. */
interface Call {
  readonly product: BatchedProduct;
  readonly frame: Frame;
  /** The frame has its address. */
  readonly tasks: BigUint64Array;
  fastestMs: number;
}

/** Makes products in the memory where values lie, one after the other. */
export class ProductPiece implements CompiledPiece {
  readonly #code: ProductCode;
  readonly #base: bigint;
  readonly #calls: readonly Call[];

  /** `packed` is memory for packed operands, which pieces of one backend share. */
  constructor(
    memory: WebAssembly.Memory,
    products: readonly BatchedProduct[],
    code: ProductCode,
    packed: Uint8Array,
  ) {
    this.#code = code;
    this.#base = hostAddress(new Uint8Array(memory.buffer));
    this.#calls = products.map((product) => {
      const frame = createFrame();
      const tasks = planTasks(productsOf(product), code);
      frame[operandNames.indexOf('packed')] = hostAddress(packed);
      frame[operandNames.indexOf('tasks')] = hostAddress(new Uint8Array(tasks.buffer));
      return { product, frame, tasks, fastestMs: Number.POSITIVE_INFINITY };
    });
  }

  async run(addressOf: AddressOf, overlap: boolean): Promise<void> {
    for (const call of this.#calls) {
      const { left, right, result, addend } = call.product;
      const values = [left.value, right.value, result, addend?.value ?? result];
      for (const [index, value] of values.entries()) {
        call.frame[index] = this.#base + BigInt(addressOf(value));
      }
      const isOverlapped = overlap && call.fastestMs > LONG_MS && callThreads();
      if (overlap && !isOverlapped && call.fastestMs > BUSY_MS) await nextTurn();
      const start = performance.now();
      if (isOverlapped) await this.#runOverlapped(call.frame);
      else this.#code.run(call.frame);
      call.fastestMs = Math.min(call.fastestMs, performance.now() - start);
    }
  }

  #runOverlapped(frame: Frame): Promise<void> {
    return new Promise((resolve, reject) => {
      this.#code.run.async(frame, (error) => (error === null ? resolve() : reject(error)));
    });
  }
}
