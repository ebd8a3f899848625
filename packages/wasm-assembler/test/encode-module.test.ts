import { describe, expect, test, vi } from 'vitest';
import {
  createSharedMemory,
  f32,
  f64,
  f64x2,
  FunctionBuilder,
  i32,
  instantiateKernels,
  type Kernel,
  memory,
  memoryLimits,
  narrowMemoryBytes,
  pageBytes,
  usize,
  v128,
} from '../src/index.ts';

const gibibyte = 2 ** 30;

function kernel(fn: FunctionBuilder, on = new WebAssembly.Memory({ initial: 1 })): Kernel {
  const run = instantiateKernels(new Map([['run', fn]]), on).get('run');
  if (run === undefined) throw new RangeError('no kernel');
  return run;
}

describe.each([
  ['of 64 KiB, not shared', () => new WebAssembly.Memory({ initial: 1 }), 0],
  ['of 4 GiB', () => createSharedMemory(narrowMemoryBytes), 3 * gibibyte],
  ['of 6 GiB', () => createSharedMemory(6 * gibibyte), 5 * gibibyte],
])('on a memory %s', (_, create, start) => {
  test('exports every function by its name, each with its own parameters and result', () => {
    const sum = new FunctionBuilder(2);
    sum.return(usize.add(sum.parameter(0), sum.parameter(1)));
    const store = new FunctionBuilder(1);
    store.do(i32.store(store.parameter(0), i32.const(7)));
    const load = new FunctionBuilder(1);
    load.return(i32.load(load.parameter(0)));
    const kernels = instantiateKernels(new Map(Object.entries({ sum, store, load })), create());
    expect(kernels.get('sum')?.(40, 2)).toBe(42);
    expect(kernels.get('store')?.(start + 8)).toBeUndefined();
    expect(kernels.get('load')?.(start + 8)).toBe(7);
  });

  test('fills and copies bytes', () => {
    const on = create();
    const fill = new FunctionBuilder(3);
    const [target, byteLength, copied] = [fill.parameter(0), fill.parameter(1), fill.parameter(2)];
    fill.do(memory.fill(target, i32.const(9), byteLength));
    fill.do(memory.copy(copied, target, byteLength));
    kernel(fill, on)(start + 3, 2, start + 7);
    expect([...new Uint8Array(on.buffer, start + 2, 8)]).toEqual([0, 9, 9, 0, 0, 9, 9, 0]);
  });

  test.each([0, 63, 64, -64, -65, 8191, 8192, 2 ** 31 - 1, -(2 ** 31)])(
    'keeps the constant %i',
    (value) => {
      const [narrow, size] = [new FunctionBuilder(0), new FunctionBuilder(0)];
      narrow.return(i32.const(value));
      size.return(usize.const(value));
      const on = create();
      expect([kernel(narrow, on)(), kernel(size, on)()]).toEqual([value, value]);
    },
  );

  test('a negative i32 is larger than any size', () => {
    const isLarger = new FunctionBuilder(2);
    const value = usize.fromI32(usize.toI32(isLarger.parameter(0)));
    isLarger.return(usize.geU(value, isLarger.parameter(1)));
    const run = kernel(isLarger, create());
    expect([run(2 ** 32 - 1, start + 1), run(start / 4, start / 4 + 1)]).toEqual([1, 0]);
  });

  test('reads addresses that lie in memory', () => {
    const on = create();
    new BigUint64Array(on.buffer, start, 2).set([BigInt(start + 8), 77n]);
    const follow = new FunctionBuilder(1);
    follow.return(i32.load(usize.load(follow.parameter(0))));
    expect(kernel(follow, on)(start)).toBe(77);
  });

  test('adds parameters of other kinds than sizes behind the first ones', () => {
    const on = create();
    const scale = new FunctionBuilder(1);
    const address = scale.parameter(0);
    const factor = scale.let(f64x2.splat(scale.addParameter('f64')));
    scale.do(v128.store(address, f64x2.mul(v128.load(address), factor)));
    const numbers = new Float64Array(on.buffer, start, 3);
    numbers.set([3, -5, 11]);
    kernel(scale, on)(start, 0.5);
    expect([...numbers]).toEqual([1.5, -2.5, 11]);
  });

  test('counts whole steps, and leaves what is less than one', () => {
    const steps = new FunctionBuilder(1);
    const [offset, turns] = [steps.let(usize.const(0)), steps.let(usize.const(0))];
    steps.forSteps(offset, 4, steps.parameter(0), () => {
      steps.set(turns, usize.add(turns, usize.const(1)));
    });
    steps.return(usize.add(usize.mul(turns, usize.const(1000)), offset));
    const run = kernel(steps, create());
    expect([0, 3, 4, 11, 12].map((end) => run(end))).toEqual([0, 0, 1004, 2008, 3012]);
  });
});

test('functions of one map are compiled once for all memories of a type', () => {
  const compile = vi.spyOn(WebAssembly, 'Module');
  const read = new FunctionBuilder(0);
  read.return(i32.load(usize.const(0)));
  const functions = new Map([['read', read]]);
  const memories = Array.from({ length: 3 }, () => new WebAssembly.Memory({ initial: 1 }));
  const kernels = memories.map((each) => instantiateKernels(functions, each).get('read'));
  for (const [index, { buffer }] of memories.entries()) new Int32Array(buffer).fill(index);
  expect(kernels.map((each) => each?.())).toEqual([0, 1, 2]);
  expect(compile).toHaveBeenCalledOnce();
  instantiateKernels(functions, createSharedMemory(pageBytes));
  expect(compile).toHaveBeenCalledTimes(2);
  compile.mockRestore();
});

describe('sizes', () => {
  const square = new FunctionBuilder(1);
  square.return(usize.mul(square.parameter(0), square.parameter(0)));
  const root = 2 ** 20 + 1;

  test.each([pageBytes, narrowMemoryBytes])('have 32 bits on a memory of %i bytes', (bytes) => {
    expect(kernel(square, createSharedMemory(bytes))(root)).toBe(2 ** 21 + 1);
  });

  test('have 64 bits on a memory of more', () => {
    const memory_ = createSharedMemory(narrowMemoryBytes + pageBytes);
    expect(kernel(square, memory_)(root)).toBe(root ** 2);
  });

  test('have as many bits as the addresses of a memory that was made elsewhere', () => {
    const whole = new WebAssembly.Memory({ initial: 65_536 });
    const small: unknown = Reflect.construct(WebAssembly.Memory, [{ address: 'i64', initial: 1n }]);
    if (!(small instanceof WebAssembly.Memory)) throw new TypeError('no memory');
    expect([kernel(square, whole)(root), kernel(square, small)(root)]).toEqual([
      2 ** 21 + 1,
      root ** 2,
    ]);
  });
});

test('more memory than there can be is a RangeError', () => {
  expect(() => createSharedMemory(16 * gibibyte + pageBytes)).toThrow(RangeError);
});

describe('the limits of a memory', () => {
  const wide = 16 * gibibyte;
  const large = { engineBytes: wide, machineBytes: 64 * gibibyte, lendsOnDemand: true };
  const narrowDefault = { largestBytes: wide, defaultBytes: narrowMemoryBytes };
  const narrow = { largestBytes: narrowMemoryBytes, defaultBytes: narrowMemoryBytes };

  test.each([
    ['a large machine', {}, { largestBytes: wide, defaultBytes: wide }],
    [
      'a small machine',
      { machineBytes: 8 * gibibyte },
      { largestBytes: 8 * gibibyte, defaultBytes: 6 * gibibyte },
    ],
    ['a machine of less than 4 GiB', { machineBytes: 2 * gibibyte }, narrow],
    [
      'a system that counts memory as used when it is made',
      { lendsOnDemand: false },
      narrowDefault,
    ],
    ['a browser', { machineBytes: 'unknown' }, narrowDefault],
    ['a browser without addresses of 64 bits', { engineBytes: narrowMemoryBytes }, narrow],
  ] as const)('on %s', (_, host, expected) => {
    expect(memoryLimits({ ...large, ...host })).toMatchObject(expected);
  });

  test('say what sets them', () => {
    const { reason } = memoryLimits({ ...large, machineBytes: 8 * gibibyte });
    expect(reason).toBe('this machine has 8589934592 bytes of memory');
    expect(memoryLimits().reason).toMatch(/^(this machine has|WebAssembly has at most) \d+ bytes/);
  });
});

test('encodes functions of more bytes than one byte of length can say', () => {
  const count = new FunctionBuilder(1);
  const total = count.let(count.parameter(0));
  for (let step = 0; step < 5000; step++) count.set(total, usize.add(total, usize.const(step)));
  count.return(total);
  expect(kernel(count)(1)).toBe(1 + (4999 * 5000) / 2);
});

test('refuses a parameter after a variable, whose number it would take', () => {
  const late = new FunctionBuilder(1);
  late.let(f64.promote(f32.load(late.parameter(0))));
  expect(() => late.addParameter('f32')).toThrow(RangeError);
});
