import {
  type Bytes,
  type Code,
  type ValueKind,
  type Width,
  code,
  flatten,
  unsigned,
} from './code.ts';
import { f32x4, i32, i32x4, usize, v128 } from './instructions.ts';

/** A variable of a function. As an expression it is the value of the variable. */
export interface Local<K extends ValueKind> extends Code<K> {
  readonly index: number;
}

const I32 = 0x7f;
const I64 = 0x7e;

export const kindBytes: Readonly<Record<ValueKind, Bytes>> = {
  i32: [I32],
  i64: [I64],
  f32: [0x7d],
  f64: [0x7c],
  v128: [0x7b],
  usize: [{ narrow: [I32], wide: [I64] }],
};

const BLOCK = 0x02;
const LOOP = 0x03;
const IF = 0x04;
const END = 0x0b;
const BR_IF = 0x0d;
const RETURN = 0x0f;
const LOCAL_GET = 0x20;
const LOCAL_SET = 0x21;
const EMPTY_TYPE = 0x40;

type ResultKind = 'i32' | 'usize';

/** Writes one function, statement after statement. */
export class FunctionBuilder {
  readonly #parameters: ValueKind[];
  readonly #locals: ValueKind[] = [];
  readonly #constants = new Map<string, Local<'v128'>>();
  readonly #prologue: Bytes[] = [];
  #body: Bytes[] = [];
  #result: ResultKind | undefined;

  /** The parameters are addresses and counts. */
  constructor(parameterCount: number) {
    this.#parameters = Array.from({ length: parameterCount }, () => 'usize');
  }

  get parameters(): readonly ValueKind[] {
    return this.#parameters;
  }

  /** A parameter that the constructor has made. */
  parameter(index: number): Local<'usize'> {
    return this.#local('usize', index);
  }

  /**
   * Adds a parameter of any kind. Throws RangeError after the first variable, because variables follow the
   * parameters in number.
   */
  addParameter<K extends ValueKind>(kind: K): Local<K> {
    if (this.#locals.length > 0) throw new RangeError('Parameters come before variables.');
    this.#parameters.push(kind);
    return this.#local(kind, this.#parameters.length - 1);
  }

  /** Declares a new variable and sets it to `value`. */
  let<K extends ValueKind>(value: Code<K>): Local<K> {
    const local = this.#declare(value.kind);
    this.set(local, value);
    return withOperation(local, value);
  }

  /** Sets a variable to a value. */
  set<K extends ValueKind>(local: Local<K>, value: Code<K>): void {
    this.#body.push([value.bytes, LOCAL_SET, unsigned(local.index)]);
  }

  /** Adds a statement. */
  do(statement: Code<'nothing'>): void {
    this.#body.push(statement.bytes);
  }

  /** Returns a value. A function that returns a value anywhere must do so at its end. */
  return(value: Code<ResultKind>): void {
    this.#result = value.kind;
    this.#body.push([value.bytes, RETURN]);
  }

  /** The kind of the result; undefined if there is none. */
  get result(): ResultKind | undefined {
    return this.#result;
  }

  /**
   * A vector with the f32 `value` in all lanes. It is set once at the start of the function, so loops find it
   * in a register.
   */
  float(value: number): Local<'v128'> {
    return this.#constant(`f${Object.is(value, -0) ? '-0' : value}`, f32x4.const(value));
  }

  /** A vector with the i32 `value` in all lanes, set once at the start of the function. */
  int(value: number): Local<'v128'> {
    return this.#constant(`i${value}`, i32x4.const(value));
  }

  /** A vector of these four i32, set once at the start of the function. */
  lanes(lanes: readonly [number, number, number, number]): Local<'v128'> {
    return this.#constant(`l${lanes.join()}`, v128.constInt(lanes));
  }

  /** Runs `then` if the condition is not 0. */
  if(condition: Code<'i32'>, then: () => void): void {
    const inner = this.#capture(then);
    this.#body.push([condition.bytes, IF, EMPTY_TYPE, inner, END]);
  }

  /** Repeats `body` while the condition is not 0. */
  while(condition: Code<'i32'>, body: () => void): void {
    const inner = this.#capture(body);
    this.#body.push([
      [BLOCK, EMPTY_TYPE, i32.eqz(condition).bytes, BR_IF, 0],
      [LOOP, EMPTY_TYPE, inner, condition.bytes, BR_IF, 0, END, END],
    ]);
  }

  /**
   * Repeats `body` while a whole `step` fits between `counter` and `end`; `counter` increases by `step` each
   * time. `step` is a power of two and divides `counter`.
   */
  forSteps(counter: Local<'usize'>, step: number, end: Code<'usize'>, body: () => void): void {
    const stop = step === 1 ? end : this.let(usize.and(end, usize.const(-step)));
    this.while(usize.ltU(counter, stop), () => {
      body();
      this.set(counter, usize.add(counter, usize.const(step)));
    });
  }

  /** Encodes the locals and instructions in the format of the code section. */
  encode(width: Width): number[] {
    const locals = this.#locals.map((kind) => [1, kindBytes[kind]]);
    return flatten([unsigned(locals.length), locals, this.#prologue, this.#body, END], width);
  }

  #constant(key: string, value: Code<'v128'>): Local<'v128'> {
    const known = this.#constants.get(key);
    if (known) return known;
    const local = withOperation(this.#declare('v128'), value);
    this.#prologue.push([value.bytes, LOCAL_SET, unsigned(local.index)]);
    this.#constants.set(key, local);
    return local;
  }

  #capture(body: () => void): Bytes[] {
    const outer = this.#body;
    this.#body = [];
    body();
    const inner = this.#body;
    this.#body = outer;
    return inner;
  }

  #declare<K extends ValueKind>(kind: K): Local<K> {
    this.#locals.push(kind);
    return this.#local(kind, this.#parameters.length + this.#locals.length - 1);
  }

  #local<K extends ValueKind>(kind: K, index: number): Local<K> {
    return { ...code(kind, LOCAL_GET, unsigned(index)), index };
  }
}

/** A variable that knows the operation of the value that it is first set to. */
function withOperation<K extends ValueKind>(local: Local<K>, { operation }: Code<K>): Local<K> {
  return operation === undefined ? local : { ...local, operation };
}
