import { dtypes, type DType } from '@shardwise/core/spec';
import { type Code, f32, f64, FunctionBuilder, i32, i64, usize } from '@shardwise/wasm-assembler';

type Address = Code<'usize'>;
type Convert = (to: Address, from: Address) => Code<'nothing'>;

const { load: int } = i32;
const { load: float } = f32;
const { load: long } = i64;
const { load: double } = f64;
const { load8u: bit } = i32;

/**
 * Code that converts an element to or from a dtype of 64 bits and stores it. The first key is the dtype that it
 * converts from, the second the dtype that it converts to.
 */
const conversions: Readonly<Partial<Record<DType, Readonly<Partial<Record<DType, Convert>>>>>> = {
  i64: {
    f64: (to, from) => f64.store(to, f64.convertI64S(long(from))),
    f32: (to, from) => f32.store(to, f32.convertI64S(long(from))),
    i32: (to, from) => i32.store(to, i32.wrapI64(long(from))),
    bool: (to, from) => i32.store8(to, i64.ne(long(from), i64.const(0))),
  },
  f64: {
    i64: (to, from) => i64.store(to, i64.truncSatF64S(double(from))),
    f32: (to, from) => f32.store(to, f32.demote(double(from))),
    i32: (to, from) => i32.store(to, i32.truncSatF64S(double(from))),
    bool: (to, from) => i32.store8(to, f64.ne(double(from), f64.const(0))),
  },
  f32: {
    i64: (to, from) => i64.store(to, i64.truncSatF32S(float(from))),
    f64: (to, from) => f64.store(to, f64.promote(float(from))),
  },
  i32: {
    i64: (to, from) => i64.store(to, i64.extendI32S(int(from))),
    f64: (to, from) => f64.store(to, f64.convertI32S(int(from))),
  },
  bool: {
    i64: (to, from) => i64.store(to, i64.extendI32S(bit(from))),
    f64: (to, from) => f64.store(to, f64.convertI32S(bit(from))),
  },
};

/** Whether there is a kernel that converts between these dtypes. Other conversions go by way of f32 or i32. */
export function castsLong(from: DType, to: DType): boolean {
  return conversions[from]?.[to] !== undefined;
}

/** Writes a kernel that converts elements. Parameters: the number of elements; addresses: x, y. */
export function castLong(from: DType, to: DType): FunctionBuilder {
  const convert = conversions[from]?.[to];
  if (convert === undefined) throw new RangeError(`no conversion from ${from} to ${to}`);
  const fn = new FunctionBuilder(3);
  const [count, x, y] = [fn.parameter(0), fn.parameter(1), fn.parameter(2)];
  const element = fn.let(usize.const(0));
  fn.forSteps(element, 1, count, () => {
    fn.do(convert(y, x));
    fn.set(x, usize.add(x, usize.const(dtypes[from].bytes)));
    fn.set(y, usize.add(y, usize.const(dtypes[to].bytes)));
  });
  return fn;
}
