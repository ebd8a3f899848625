import { nextTurn } from '@shardwise/core/base';
import { byteLengthOf } from '../../program/instruction.ts';
import { inputName, outputName } from '../../emit/onnx/graph-builder.ts';
import { sizeBytes } from '../../emit/onnx/model.ts';
import type { OnnxSlots, Slot } from '../../emit/onnx/onnx-slots.ts';
import { type Session, Values } from './runtime/session.ts';
import type { SizeInput } from '../../emit/onnx/session-model.ts';
import { addressOf as hostAddress, type Address } from '../../memory/host-address.ts';
import type { AddressOf, CompiledPartition } from '../../program/partition.ts';

/**
 * Runs that take longer than this leave the event loop free. Shorter runs block it: if ranks use all cores, each run on
 * another thread costs about 1 ms of its rank's time.
 */
const LONG_MS = 20;

/** The tensors of a session's inputs or outputs. A tensor is described again only when its value has moved. */
class Bindings {
  readonly values: Values;
  readonly #base: Address;
  readonly #slots: readonly Slot[];
  readonly #addresses: number[];
  /** The lists of sizes, which do not lie in the arena. */
  readonly #sizes: readonly Uint8Array[];

  constructor(
    base: Address,
    slots: readonly Slot[],
    nameOf: (index: number) => string,
    sizes: readonly SizeInput[],
  ) {
    const names = [...slots.map((_, index) => nameOf(index)), ...sizes.map(({ name }) => name)];
    this.values = new Values(names);
    this.#base = base;
    this.#slots = slots;
    this.#addresses = slots.map(() => -1);
    this.#sizes = sizes.map((input) => sizeBytes(input.sizes));
    for (const [index, bytes] of this.#sizes.entries()) {
      const count = bytes.byteLength / BigInt64Array.BYTES_PER_ELEMENT;
      const address = hostAddress(bytes);
      this.values.set(slots.length + index, address, bytes.byteLength, [count], 'i64');
    }
  }

  bind(addressOf: AddressOf): void {
    this.#slots.forEach(({ id, type, element }, index) => {
      const address = addressOf(id);
      if (address === this.#addresses[index]) return;
      const place = this.#base + BigInt(address);
      this.values.set(index, place, byteLengthOf(type), type.shape, element);
      this.#addresses[index] = address;
    });
  }
}

/** Runs one session on values where they lie in the arena. */
export class CompiledSession implements CompiledPartition {
  readonly #session: Session;
  readonly #describe: () => string;
  readonly #inputs: Bindings;
  readonly #outputs: Bindings;
  #fastestMs = Number.POSITIVE_INFINITY;

  /** `describe` names the ops and shapes for the error of a failed run. */
  constructor(
    memory: WebAssembly.Memory,
    slots: OnnxSlots,
    sizes: readonly SizeInput[],
    session: Session,
    describe: () => string,
  ) {
    const base = hostAddress(new Uint8Array(memory.buffer));
    this.#session = session;
    this.#describe = describe;
    this.#inputs = new Bindings(base, slots.inputs, inputName, sizes);
    this.#outputs = new Bindings(base, slots.outputs, outputName, []);
  }

  async run(addressOf: AddressOf, overlap: boolean): Promise<void> {
    const session = this.#session;
    const inputs = this.#inputs.values;
    const outputs = this.#outputs.values;
    this.#inputs.bind(addressOf);
    this.#outputs.bind(addressOf);
    const isOverlapped = overlap && this.#fastestMs > LONG_MS;
    // This run blocks the thread, so what waits in the event loop, such as a collective, goes first.
    if (!isOverlapped) await nextTurn();
    const start = performance.now();
    if (isOverlapped) await session.runOverlapped(inputs, outputs, this.#describe);
    else session.run(inputs, outputs, this.#describe);
    this.#fastestMs = Math.min(this.#fastestMs, performance.now() - start);
  }

  dispose(): void {
    this.#inputs.values.release();
    this.#outputs.values.release();
  }
}
