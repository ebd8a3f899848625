import { setImmediate as nextTurn } from 'node:timers/promises';
import type { ValueType } from '@shardwise/core/spec';
import type { PieceProgram } from '../compile/piece-program.ts';
import type { AddressOf, CompiledPiece } from '../compile/compiled-piece.ts';
import { byteLengthOf, valueAt } from '../compile/step.ts';
import { inputName, outputName } from './graph-builder.ts';
import { type Address, addressOf as hostAddress } from './runtime/api.ts';
import type { TensorType } from './model.ts';
import { Values } from './runtime/session.ts';
import { convertedValues, sessionType } from './session-type.ts';
import type { SessionLease } from './sessions.ts';

/**
 * A run that takes longer than this leaves the event loop free. Shorter ones block it, as where
 * ranks take all cores, each run on another thread costs about 1 ms of its rank's time.
 */
const LONG_MS = 20;

interface Slot {
  readonly id: number;
  readonly type: ValueType;
  readonly element: TensorType;
  address: number;
}

/** The tensors of a session's inputs or outputs, described anew only when a value has moved. */
class Bindings {
  readonly values: Values;
  readonly #base: Address;
  readonly #slots: readonly Slot[];

  constructor(
    base: Address,
    types: readonly ValueType[],
    ids: readonly number[],
    nameOf: (index: number) => string,
    converted: ReadonlyMap<number, TensorType>,
  ) {
    this.values = new Values(ids.map((_, index) => nameOf(index)));
    this.#base = base;
    this.#slots = ids.map((id) => {
      const type = valueAt(types, id);
      return { id, type, element: converted.get(id) ?? sessionType(type.dtype), address: -1 };
    });
  }

  bind(addressOf: AddressOf): void {
    this.#slots.forEach((slot, index) => {
      const address = addressOf(slot.id);
      if (address === slot.address) return;
      this.values.set(
        index,
        this.#base + BigInt(address),
        byteLengthOf(slot.type),
        slot.type.shape,
        slot.element,
      );
      slot.address = address;
    });
  }
}

/** Runs one session on values in place. */
export class OnnxPiece implements CompiledPiece {
  readonly #lease: SessionLease;
  readonly #describe: () => string;
  readonly #inputs: Bindings;
  readonly #outputs: Bindings;
  #fastestMs = Number.POSITIVE_INFINITY;

  /** `describe` names the ops and shapes for the error of a run that fails. */
  constructor(
    memory: WebAssembly.Memory,
    values: readonly ValueType[],
    piece: Pick<PieceProgram, 'inputs' | 'outputs' | 'steps'>,
    lease: SessionLease,
    describe: () => string,
  ) {
    const base = hostAddress(new Uint8Array(memory.buffer));
    this.#lease = lease;
    this.#describe = describe;
    const converted = convertedValues(piece.steps, values);
    this.#inputs = new Bindings(base, values, piece.inputs, inputName, converted);
    this.#outputs = new Bindings(base, values, piece.outputs, outputName, converted);
  }

  async run(addressOf: AddressOf, overlap: boolean): Promise<void> {
    const { session } = this.#lease;
    const inputs = this.#inputs.values;
    const outputs = this.#outputs.values;
    this.#inputs.bind(addressOf);
    this.#outputs.bind(addressOf);
    const isOverlapped = overlap && this.#fastestMs > LONG_MS;
    // A run that blocks the thread: what waits in the event loop, such as a collective, goes first.
    if (!isOverlapped) await nextTurn();
    const start = performance.now();
    if (isOverlapped) await session.runOverlapped(inputs, outputs, this.#describe);
    else session.run(inputs, outputs, this.#describe);
    this.#fastestMs = Math.min(this.#fastestMs, performance.now() - start);
  }

  dispose(): void {
    this.#inputs.values.release();
    this.#outputs.values.release();
    this.#lease.release();
  }
}
