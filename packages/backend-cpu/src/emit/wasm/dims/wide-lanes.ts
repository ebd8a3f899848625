import {
  type Code,
  f32x4,
  f64x2,
  type FunctionBuilder,
  i8x16,
  type Local,
} from '@shardwise/wasm-assembler';

const HIGH_HALF = [8, 9, 10, 11, 12, 13, 14, 15, 8, 9, 10, 11, 12, 13, 14, 15];
const BOTH_LOW = [0, 1, 2, 3, 4, 5, 6, 7, 16, 17, 18, 19, 20, 21, 22, 23];

/** Four running sums in f64, one for each f32 lane of a vector. */
export class WideLanes {
  readonly #fn: FunctionBuilder;
  readonly #low: Local<'v128'>;
  readonly #high: Local<'v128'>;

  /** Writes code that sets the sums to zero. */
  constructor(fn: FunctionBuilder) {
    this.#fn = fn;
    this.#low = fn.let(fn.float(0));
    this.#high = fn.let(fn.float(0));
  }

  add(value: Local<'v128'>): void {
    const fn = this.#fn;
    const high = i8x16.shuffle(value, value, HIGH_HALF);
    fn.set(this.#low, f64x2.add(this.#low, f64x2.promoteLowF32x4(value)));
    fn.set(this.#high, f64x2.add(this.#high, f64x2.promoteLowF32x4(high)));
  }

  /** The sums, rounded to f32. */
  rounded(): Code<'v128'> {
    const [low, high] = [this.#low, this.#high].map((half) => f32x4.demoteF64x2Zero(half));
    if (low === undefined || high === undefined) throw new RangeError('two halves');
    return i8x16.shuffle(low, high, BOTH_LOW);
  }
}
