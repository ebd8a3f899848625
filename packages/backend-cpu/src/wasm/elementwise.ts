import {
  type Code,
  FunctionBuilder,
  i16x8,
  i32,
  i32x4,
  i8x16,
  type Local,
  usize,
  v128,
} from '@shardwise/wasm-assembler';
import { isNonZero } from './cast.ts';
import { constantBits } from './constant-bits.ts';
import { type EmitContext, emitters } from './elementwise-ops.ts';
import { type LaneDType, type LoopSpec, type LoopStep, laneBytes } from './loop-spec.ts';

const LANES = 4;
/** Unrolling saves loop overhead only; long bodies overlap by out-of-order execution anyway. */
const UNROLLED_STEPS = 24;
const MAX_UNROLL = 4;

/** Whether a value is computed for four elements or, at the end of a row, for one. */
type Width = 1 | 4;

/**
 * The kernel of a fused loop: loads each operand once, computes in registers, stores what is
 * wanted. A store may go to the address of an element operand.
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
  /** What does not change within a row, by slot. */
  readonly #splats = new Map<number, Local<'v128'>>();
  readonly #column: Local<'usize'>;
  /** Flat index of the row's first element. */
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
      this.#store(dtype, this.#storeAddresses[store], at(slots, slot), width, offset),
    );
  }

  #step(step: LoopStep, slots: readonly Local<'v128'>[], offset: number): Local<'v128'> {
    const fn = this.#fn;
    if (step.op === 'constant') return constantLanes(fn, step.dtype, step.value);
    const inputs = step.inputs.map((slot) => at(slots, slot));
    const a = at(inputs, 0);
    if (step.op === 'copy') return a;
    const context: EmitContext = {
      fn,
      dtype: step.dtype,
      inputDType: step.inputDType,
      approximate: step.approximate ?? 'none',
      index: () => {
        const first = usize.add(usize.add(this.#rowStart, this.#column), usize.const(offset));
        return fn.let(i32x4.add(i32x4.splat(usize.toI32(first)), fn.lanes([0, 1, 2, 3])));
      },
    };
    return fn.let(emitters[step.op](context, a, inputs[1] ?? a, inputs[2] ?? a));
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
    const fn = this.#fn;
    const address = this.#elementAddress(base, dtype);
    const byteOffset = offset * laneBytes[dtype];
    if (width === 1) return splatAt(fn, dtype, address, byteOffset);
    if (laneBytes[dtype] === 2) return v128.load16x4u(address, byteOffset);
    if (laneBytes[dtype] === 4) return v128.load(address, byteOffset);
    const bytes = v128.load32Zero(address, byteOffset);
    const lanes = i32x4.extendLowI16x8U(i16x8.extendLowI8x16U(bytes));
    return dtype === 'bool' ? isNonZero(fn, lanes) : lanes;
  }

  #store(
    dtype: LaneDType,
    base: Local<'usize'> | undefined,
    value: Local<'v128'>,
    width: Width,
    offset: number,
  ): void {
    const fn = this.#fn;
    const address = this.#elementAddress(base, dtype);
    const byteOffset = offset * laneBytes[dtype];
    if (laneBytes[dtype] === 1) {
      const bytes = dtype === 'bool' ? fn.let(v128.and(value, fn.int(1))) : value;
      if (width === 1) {
        fn.do(i32.store8(address, i32x4.extractLane(bytes, 0), byteOffset));
        return;
      }
      const words = fn.let(i16x8.narrowI32x4U(bytes, bytes));
      fn.do(v128.store32Lane0(address, i8x16.narrowI16x8U(words, words), byteOffset));
      return;
    }
    if (laneBytes[dtype] === 2) {
      fn.do(
        width === 1
          ? i32.store16(address, i32x4.extractLane(value, 0), byteOffset)
          : v128.store64Lane0(address, i16x8.narrowI32x4U(value, value), byteOffset),
      );
      return;
    }
    fn.do(
      width === 1
        ? v128.store32Lane0(address, value, byteOffset)
        : v128.store(address, value, byteOffset),
    );
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

function constantLanes(fn: FunctionBuilder, dtype: LaneDType, value: number): Local<'v128'> {
  return dtype === 'f32' ? fn.float(value) : fn.int(constantBits(dtype, value));
}

/** One element in all lanes. */
function splatAt(
  fn: FunctionBuilder,
  dtype: LaneDType,
  address: Code<'usize'>,
  byteOffset: number,
): Code<'v128'> {
  if (laneBytes[dtype] === 4) return v128.load32Splat(address, byteOffset);
  if (laneBytes[dtype] === 2) return i32x4.splat(i32.load16u(address, byteOffset));
  const byte = i32x4.splat(i32.load8u(address, byteOffset));
  return dtype === 'bool' ? isNonZero(fn, byte) : byte;
}

function at(slots: readonly Local<'v128'>[], slot: number): Local<'v128'> {
  const local = slots[slot];
  if (!local) throw new RangeError(`A loop step reads slot ${slot} of ${slots.length}.`);
  return local;
}
