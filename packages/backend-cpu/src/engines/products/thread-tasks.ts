import { callWords } from '../../lanes/loop-code.ts';
import { createFrame, type Frame, operandNames } from '../../emit/products/task-layout.ts';
import { TaskList } from '../../emit/products/task-list.ts';
import { addressOf } from '../../memory/host-address.ts';
import type { ProductPart, ProductResources } from './run-parts.ts';

/** Where the entries of a table begin, and where they end. */
interface TablePlace {
  readonly table: number;
  readonly tableEnd: number;
}

/**
 * What a thread computes in one call: loops, and products that are repeated. Operands have addresses of their own, so those
 * of the frame are 0. The memory is used again by whoever computes next.
 */
export class ThreadTasks {
  readonly list: TaskList = new TaskList();
  readonly thread: number;
  readonly #frame: Frame = createFrame();
  readonly #frameAddress = addressOf(new Uint8Array(this.#frame.buffer));
  #tasks: Uint8Array = new Uint8Array(0);
  #tasksAddress = 0n;
  /** The entries of tables, each as its lower and its upper half. */
  #entries = new Uint32Array(0);
  #entriesAddress = 0;
  #count = 0;
  #packedBytes = 0;
  /** Machine code has the addresses of these, so they must stay alive. */
  readonly #used: Uint8Array[] = [];

  constructor(thread: number) {
    this.thread = thread;
  }

  /** Forgets all tasks. `entries` is the number of the entries of all tables to come. */
  restart(entries: number): void {
    this.list.restart();
    this.#count = 0;
    this.#packedBytes = 0;
    this.#used.length = 0;
    if (this.#entries.length >= 2 * entries) return;
    this.#entries = new Uint32Array(4 * entries);
    this.#entriesAddress = Number(addressOf(new Uint8Array(this.#entries.buffer)));
  }

  addTable(byteOffsets: readonly number[]): TablePlace {
    const table = this.#entriesAddress + 8 * this.#count;
    for (const bytes of byteOffsets) {
      this.#entries[2 * this.#count] = bytes % 2 ** 32;
      this.#entries[2 * this.#count + 1] = Math.floor(bytes / 2 ** 32);
      this.#count++;
    }
    return { table, tableEnd: this.#entriesAddress + 8 * this.#count };
  }

  /** Adds a loop, which takes numbers and addresses. */
  addLoop(
    { code }: ProductResources,
    routine: bigint,
    numbers: readonly number[],
    addresses: readonly number[],
  ): void {
    const words = callWords.rows + numbers.length + addresses.length;
    this.list.addCall(code.callLoop, [
      routine,
      ...[8 * words, ...numbers, ...addresses].map(BigInt),
    ]);
  }

  /** The address of memory that tasks read or write. */
  addressOf(memory: Uint8Array): number {
    this.#used.push(memory);
    return Number(addressOf(memory));
  }

  /** Says that some task packs so many bytes. */
  packs(byteLength: number): void {
    this.#packedBytes = Math.max(this.#packedBytes, byteLength);
  }

  /** What the thread computes. */
  part(resources: ProductResources): ProductPart {
    const memory = this.list.end();
    if (memory.buffer !== this.#tasks.buffer) {
      this.#tasks = memory;
      this.#tasksAddress = addressOf(memory);
    }
    const packed = resources.packedOf(this.thread, this.#packedBytes);
    this.#frame[operandNames.indexOf('packed')] = BigInt(this.addressOf(packed));
    this.#frame[operandNames.indexOf('tasks')] = this.#tasksAddress;
    return {
      frame: this.#frame,
      frameAddress: this.#frameAddress,
      tasks: new BigUint64Array(memory.buffer),
      packed,
    };
  }
}
