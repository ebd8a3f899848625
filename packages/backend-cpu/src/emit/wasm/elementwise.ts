import { type Code, FunctionBuilder, i32x4, type Local, usize } from '@shardwise/wasm-assembler';
import { loadLanes, splatAt, storeLanes, type Width } from './lane-memory.ts';
import { type LaneDType, type LoopSpec, type LoopStep, laneBytes } from '../../lanes/loop-spec.ts';
import { slotAt, stepValue } from '../../lanes/step-value.ts';

const LANES = 4;
/**
 * The most steps of an unrolled body. Unrolling only saves loop overhead, because long bodies overlap by out-of-order
 * execution anyway.
 */
const UNROLLED_STEPS = 24;
const MAX_UNROLL = 4;

/**
 * Writes the kernel of a fused loop. It loads each operand once, computes in registers, and stores the wanted values. A
 * store may go to the address of an element operand.
 * Parameters: rows, columns, the address of each load, the address of each store.
 */
export function elementwiseKernel(spec: LoopSpec): FunctionBuilder {
  return new LoopWriter(spec).write();
}

function unrollOf(spec: LoopSpec): number {
  const steps = Math.max(spec.steps.length + spec.loads.length, 1);
  const fitting = 2 ** Math.floor(Math.log2(Math.max(UNROLLED_STEPS / steps, 1)));
  return Math.min(fitting, MAX_UNROLL);
}

class LoopWriter {
  readonly #spec: LoopSpec;
  readonly #fn: FunctionBuilder;
  readonly #columns: Local<'usize'>;
  readonly #loadAddresses: readonly Local<'usize'>[];
  readonly #storeAddresses: readonly Local<'usize'>[];
  /** The values that do not change within a row, by slot. */
  readonly #splats = new Map<number, Local<'v128'>>();
  readonly #column: Local<'usize'>;
  /** The flat index of the row's first element. */
  readonly #rowStart: Local<'usize'>;

  constructor(spec: LoopSpec) {
    this.#spec = spec;
    this.#fn = new FunctionBuilder(2 + spec.loads.length + spec.stores.length);
    const fn = this.#fn;
    this.#columns = fn.parameter(1);
    this.#loadAddresses = spec.loads.map((_, load) => fn.parameter(2 + load));
    this.#storeAddresses = spec.stores.map((_, store) =>
      fn.parameter(2 + spec.loads.length + store),
    );
    this.#column = fn.let(usize.const(0));
    this.#rowStart = fn.let(usize.const(0));
  }

  write(): FunctionBuilder {
    const fn = this.#fn;
    this.#splat('scalar');
    if (!this.#spec.byRows) {
      this.#row();
      return fn;
    }
    const row = fn.let(usize.const(0));
    fn.forSteps(row, 1, fn.parameter(0), () => {
      this.#splat('row');
      fn.set(this.#column, usize.const(0));
      this.#row();
      this.#nextRow();
    });
    return fn;
  }

  #row(): void {
    const unroll = unrollOf(this.#spec);
    const body = (vectors: number): void => {
      for (let vector = 0; vector < vectors; vector++) this.#elements(4, vector * LANES);
    };
    if (unroll > 1) {
      this.#fn.forSteps(this.#column, LANES * unroll, this.#columns, () => body(unroll));
    }
    this.#fn.forSteps(this.#column, LANES, this.#columns, () => body(1));
    this.#fn.forSteps(this.#column, 1, this.#columns, () => this.#elements(1, 0));
  }

  #elements(width: Width, offset: number): void {
    const { loads, steps, stores } = this.#spec;
    const slots: Local<'v128'>[] = loads.map(({ dtype }, load) => {
      const splat = this.#splats.get(load);
      return splat ?? this.#fn.let(this.#load(dtype, this.#loadAddresses[load], width, offset));
    });
    for (const step of steps) slots.push(this.#step(step, slots, offset));
    stores.forEach(({ slot, dtype }, store) =>
      this.#store(dtype, this.#storeAddresses[store], slotAt(slots, slot), width, offset),
    );
  }

  #step(step: LoopStep, slots: readonly Local<'v128'>[], offset: number): Local<'v128'> {
    const fn = this.#fn;
    return stepValue(fn, step, slots, () => {
      const first = usize.add(usize.add(this.#rowStart, this.#column), usize.const(offset));
      return fn.let(i32x4.add(i32x4.splat(usize.toI32(first)), fn.lanes([0, 1, 2, 3])));
    });
  }

  #elementAddress(base: Local<'usize'> | undefined, dtype: LaneDType): Code<'usize'> {
    if (!base) throw new RangeError('An operand of a loop has no address.');
    const index = this.#column;
    const bytes = laneBytes[dtype];
    return usize.add(
      base,
      bytes === 1 ? index : usize.shl(index, usize.const(bytes === 2 ? 1 : 2)),
    );
  }

  #load(
    dtype: LaneDType,
    base: Local<'usize'> | undefined,
    width: Width,
    offset: number,
  ): Code<'v128'> {
    const address = this.#elementAddress(base, dtype);
    return loadLanes(this.#fn, dtype, width, address, offset * laneBytes[dtype]);
  }

  #store(
    dtype: LaneDType,
    base: Local<'usize'> | undefined,
    value: Local<'v128'>,
    width: Width,
    offset: number,
  ): void {
    const address = this.#elementAddress(base, dtype);
    storeLanes(this.#fn, dtype, width, address, value, offset * laneBytes[dtype]);
  }

  #splat(access: 'scalar' | 'row'): void {
    const fn = this.#fn;
    this.#spec.loads.forEach((load, slot) => {
      const address = this.#loadAddresses[slot];
      if (load.access !== access || !address) return;
      const byteOffset = load.elementOffset * laneBytes[load.dtype];
      this.#splats.set(slot, fn.let(splatAt(fn, load.dtype, address, byteOffset)));
    });
  }

  #nextRow(): void {
    const fn = this.#fn;
    const advance = (
      address: Local<'usize'> | undefined,
      elements: Code<'usize'>,
      bytes: number,
    ) => {
      if (!address) return;
      fn.set(address, usize.add(address, usize.mul(elements, usize.const(bytes))));
    };
    this.#spec.loads.forEach(({ dtype, access }, load) => {
      const address = this.#loadAddresses[load];
      if (access === 'element') advance(address, this.#columns, laneBytes[dtype]);
      if (access === 'row') advance(address, usize.const(1), laneBytes[dtype]);
    });
    this.#spec.stores.forEach(({ dtype }, store) =>
      advance(this.#storeAddresses[store], this.#columns, laneBytes[dtype]),
    );
    fn.set(this.#rowStart, usize.add(this.#rowStart, this.#columns));
  }
}
