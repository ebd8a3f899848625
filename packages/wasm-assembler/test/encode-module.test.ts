import { describe, expect, test } from 'vitest';
import { encodeModule, f32, f64, f64x2, FunctionBuilder, i32, memory, v128 } from '../src/index.ts';

type Exports = Readonly<Record<string, (...parameters: readonly number[]) => number | undefined>>;

function instantiate(
  functions: Readonly<Record<string, FunctionBuilder>>,
  memory: WebAssembly.Memory = new WebAssembly.Memory({ initial: 1 }),
): Exports {
  const shared = memory.buffer instanceof SharedArrayBuffer;
  const module = new WebAssembly.Module(encodeModule(new Map(Object.entries(functions)), shared));
  const { exports } = new WebAssembly.Instance(module, { env: { memory } });
  return Object.fromEntries(
    Object.entries(exports).map(([name, run]) => {
      if (typeof run !== 'function') throw new TypeError(`${name} is no function`);
      return [name, (...parameters) => Reflect.apply(run, undefined, parameters)];
    }),
  );
}

describe('encodeModule', () => {
  test('exports every function by its name, each with its own parameters and result', () => {
    const sum = new FunctionBuilder(2);
    sum.return(i32.add(sum.parameter(0), sum.parameter(1)));
    const store = new FunctionBuilder(1);
    store.do(i32.store(store.parameter(0), i32.const(7)));
    const load = new FunctionBuilder(1);
    load.return(i32.load(load.parameter(0)));
    const run = instantiate({ sum, store, load });
    expect(run['sum']?.(40, 2)).toBe(42);
    expect(run['store']?.(8)).toBeUndefined();
    expect(run['load']?.(8)).toBe(7);
  });

  test.each([
    ['shared', new WebAssembly.Memory({ initial: 1, maximum: 1, shared: true })],
    ['unshared', new WebAssembly.Memory({ initial: 1 })],
  ])('takes a memory that is %s', (_, memory_) => {
    const bytes = new Uint8Array(memory_.buffer);
    const fill = new FunctionBuilder(3);
    fill.do(memory.fill(fill.parameter(0), fill.parameter(1), fill.parameter(2)));
    instantiate({ fill }, memory_)['fill']?.(3, 9, 2);
    expect([...bytes.subarray(2, 6)]).toEqual([0, 9, 9, 0]);
  });

  test.each([0, 63, 64, -64, -65, 8191, 8192, 2 ** 31 - 1, -(2 ** 31)])(
    'keeps the constant %i',
    (value) => {
      const constant = new FunctionBuilder(0);
      constant.return(i32.const(value));
      expect(instantiate({ constant })['constant']?.()).toBe(value);
    },
  );

  test('encodes functions of more bytes than one byte of length can say', () => {
    const count = new FunctionBuilder(1);
    const total = count.let(count.parameter(0));
    for (let step = 0; step < 5000; step++) count.set(total, i32.add(total, i32.const(step)));
    count.return(total);
    expect(instantiate({ count })['count']?.(1)).toBe(1 + (4999 * 5000) / 2);
  });
});

describe('FunctionBuilder', () => {
  test('adds parameters of other kinds than i32 behind the first ones', () => {
    const scale = new FunctionBuilder(1);
    const address = scale.parameter(0);
    const factor = scale.let(f64x2.splat(scale.addParameter('f64')));
    scale.do(v128.store(address, f64x2.mul(v128.load(address), factor)));
    const memory_ = new WebAssembly.Memory({ initial: 1 });
    const numbers = new Float64Array(memory_.buffer);
    numbers.set([3, -5, 11]);
    instantiate({ scale }, memory_)['scale']?.(0, 0.5);
    expect([...numbers.subarray(0, 3)]).toEqual([1.5, -2.5, 11]);
  });

  test('refuses a parameter after a variable, whose number it would take', () => {
    const late = new FunctionBuilder(1);
    late.let(f64.promote(f32.load(late.parameter(0))));
    expect(() => late.addParameter('f32')).toThrow(RangeError);
  });

  test('counts whole steps, and leaves what is less than one', () => {
    const steps = new FunctionBuilder(1);
    const [offset, turns] = [steps.let(i32.const(0)), steps.let(i32.const(0))];
    steps.forSteps(offset, 4, steps.parameter(0), () => {
      steps.set(turns, i32.add(turns, i32.const(1)));
    });
    steps.return(i32.add(i32.mul(turns, i32.const(1000)), offset));
    const run = instantiate({ steps })['steps'];
    expect([0, 3, 4, 11, 12].map((end) => run?.(end))).toEqual([0, 0, 1004, 2008, 3012]);
  });
});
