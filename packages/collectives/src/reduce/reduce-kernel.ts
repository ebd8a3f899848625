import type { DType, ReduceOp } from '@shardwise/core/spec';

import {
  type Code,
  f32x4,
  f64x2,
  FunctionBuilder,
  instantiateKernels,
  type Kernel,
  i32x4,
  type Local,
  memory,
  usize,
  v128,
} from '@shardwise/wasm-assembler';
import { ADDRESS_BYTES } from './address-table.ts';

type Vector = Code<'v128'>;
type Combine = (a: Vector, b: Vector) => Vector;

/** The vector instructions of a dtype. Dtypes that refuse averages have no division. */
interface VectorInstructions {
  readonly elementBytes: number;
  /** Loads one element into the lowest lane. */
  readonly loadOne: (address: Code<'usize'>) => Vector;
  readonly storeOne: (address: Code<'usize'>, value: Vector) => Code<'nothing'>;
  /** Adds a parameter of the dtype's kind to the kernel. Returns a variable that has it in all lanes of the vector. */
  readonly splatParameter: (kernel: FunctionBuilder) => Local<'v128'>;
  readonly add: Combine;
  readonly mul: Combine;
  readonly min: Combine;
  readonly max: Combine;
  readonly div: Combine | undefined;
}

export type KernelDType = 'f32' | 'f64' | 'i32';
export type KernelOp = 'sum' | 'avg' | 'product' | 'min' | 'max' | 'premultipliedSum';

export function isKernelDType(dtype: DType): dtype is KernelDType {
  return dtype === 'f32' || dtype === 'f64' || dtype === 'i32';
}

/** The kernel's name for a reduction. Undefined if no kernel does it. */
export function kernelOpOf(op: ReduceOp): KernelOp | undefined {
  if (typeof op === 'object') return 'premultipliedSum';
  return op === 'and' || op === 'or' || op === 'xor' ? undefined : op;
}

const instructionsOf: Readonly<Record<KernelDType, VectorInstructions>> = {
  f32: {
    ...f32x4,
    elementBytes: 4,
    loadOne: v128.load32Zero,
    storeOne: v128.store32Lane0,
    splatParameter: (kernel) => kernel.let(f32x4.splat(kernel.addParameter('f32'))),
  },
  f64: {
    ...f64x2,
    elementBytes: 8,
    loadOne: v128.load64Zero,
    storeOne: v128.store64Lane0,
    splatParameter: (kernel) => kernel.let(f64x2.splat(kernel.addParameter('f64'))),
  },
  i32: {
    ...i32x4,
    elementBytes: 4,
    loadOne: v128.load32Zero,
    storeOne: v128.store32Lane0,
    splatParameter: (kernel) => kernel.let(i32x4.splat(kernel.addParameter('i32'))),
    min: i32x4.minS,
    max: i32x4.maxS,
    div: undefined,
  },
};

/** What a kernel does with each value that it loads, with two values, and with the result. */
interface Recipe {
  readonly scaleLoads: boolean;
  readonly combine: 'add' | 'mul' | 'min' | 'max';
  readonly divideResult: boolean;
}

const recipes: Readonly<Record<KernelOp, Recipe>> = {
  sum: { scaleLoads: false, combine: 'add', divideResult: false },
  avg: { scaleLoads: false, combine: 'add', divideResult: true },
  product: { scaleLoads: false, combine: 'mul', divideResult: false },
  min: { scaleLoads: false, combine: 'min', divideResult: false },
  max: { scaleLoads: false, combine: 'max', divideResult: false },
  premultipliedSum: { scaleLoads: true, combine: 'add', divideResult: false },
};

/**
 * The name of the kernel that reduces two buffers and writes the result to both. Its parameters are first, second,
 * byteLength and scale. Addresses are byte offsets. The scale is the factor of premultipliedSum and the divisor of avg.
 */
export function pairKernelName(dtype: KernelDType, op: KernelOp): string {
  return `pair ${dtype} ${op}`;
}

/**
 * The name of the kernel that reduces any number of sources into any number of destinations. Their addresses
 * lie in memory: those of the sources from `table` to `sourcesEnd`, those of the destinations from there to
 * `tableEnd`. Its parameters are table, sourcesEnd, tableEnd, byteLength and scale.
 */
export function tableKernelName(dtype: KernelDType, op: KernelOp): string {
  return `table ${dtype} ${op}`;
}

/**
 * The function `copy` (target, source, byteLength), and a pair kernel and a table kernel for each dtype and op, by
 * name, as they work on a memory.
 */
export function reduceKernels(on: WebAssembly.Memory): ReadonlyMap<string, Kernel> {
  functions ??= reduceFunctions();
  return instantiateKernels(functions, on);
}

/** They are made when they are first needed, and then compiled once for all memories of a type. */
let functions: ReadonlyMap<string, FunctionBuilder> | undefined;

function reduceFunctions(): ReadonlyMap<string, FunctionBuilder> {
  const copy = new FunctionBuilder(3);
  copy.do(memory.copy(copy.parameter(0), copy.parameter(1), copy.parameter(2)));
  const kernels = new Map([['copy', copy]]);
  for (const [dtype, instructions] of typedEntries(instructionsOf)) {
    for (const [op, recipe] of typedEntries(recipes)) {
      if (recipe.divideResult && instructions.div === undefined) continue;
      kernels.set(pairKernelName(dtype, op), pairKernel(instructions, recipe));
      kernels.set(tableKernelName(dtype, op), tableKernel(instructions, recipe));
    }
  }
  return kernels;
}

function pairKernel(instructions: VectorInstructions, recipe: Recipe): FunctionBuilder {
  const kernel = new FunctionBuilder(3);
  const [first, second] = [kernel.parameter(0), kernel.parameter(1)];
  const { combine, scaled, divided } = arithmetic(kernel, instructions, recipe);
  forBlocks(kernel, instructions, kernel.parameter(2), (offset, places) => {
    const [x, y] = [usize.add(first, offset), usize.add(second, offset)];
    const results = places.map((place) => ({
      ...place,
      value: kernel.let(divided(combine(scaled(place.load(x)), scaled(place.load(y))))),
    }));
    for (const { store, value } of results) kernel.do(store(x, value));
    for (const { store, value } of results) kernel.do(store(y, value));
  });
  return kernel;
}

function tableKernel(instructions: VectorInstructions, recipe: Recipe): FunctionBuilder {
  const kernel = new FunctionBuilder(4);
  const [table, sourcesEnd, tableEnd] = [
    kernel.parameter(0),
    kernel.parameter(1),
    kernel.parameter(2),
  ];
  const { combine, scaled, divided } = arithmetic(kernel, instructions, recipe);
  const cursor = kernel.let(table);
  const address = kernel.let(table);
  forBlocks(kernel, instructions, kernel.parameter(3), (offset, places) => {
    const nextAddress = (): void => {
      kernel.set(address, usize.add(usize.load(cursor), offset));
      kernel.set(cursor, usize.add(cursor, usize.const(ADDRESS_BYTES)));
    };
    const forAddresses = (end: Code<'usize'>, body: () => void): void =>
      kernel.while(usize.ltU(cursor, end), () => {
        nextAddress();
        body();
      });
    kernel.set(cursor, table);
    nextAddress();
    const results = places.map((place) => ({
      ...place,
      value: kernel.let(scaled(place.load(address))),
    }));
    forAddresses(sourcesEnd, () => {
      for (const { load, value } of results) {
        kernel.set(value, combine(value, scaled(load(address))));
      }
    });
    if (recipe.divideResult) for (const { value } of results) kernel.set(value, divided(value));
    forAddresses(tableEnd, () => {
      for (const { store, value } of results) kernel.do(store(address, value));
    });
  });
  return kernel;
}

/** How a recipe computes with values of a dtype. The scale is the kernel's last parameter. */
function arithmetic(
  kernel: FunctionBuilder,
  instructions: VectorInstructions,
  recipe: Recipe,
): {
  readonly combine: Combine;
  readonly scaled: (value: Vector) => Vector;
  readonly divided: (value: Vector) => Vector;
} {
  const scale = instructions.splatParameter(kernel);
  const { div } = instructions;
  return {
    combine: instructions[recipe.combine],
    scaled: (value) => (recipe.scaleLoads ? instructions.mul(value, scale) : value),
    divided: (value) => (recipe.divideResult && div !== undefined ? div(value, scale) : value),
  };
}

/** Loads and stores a vector at an address, or at a fixed distance after it. */
interface Place {
  readonly load: (address: Code<'usize'>) => Vector;
  readonly store: (address: Code<'usize'>, value: Vector) => Code<'nothing'>;
}

const VECTOR_BYTES = 16;
const BLOCK_VECTORS = 8;

/**
 * Emits `body` for blocks of eight whole vectors, and again for the remaining single elements. `offset` is in bytes.
 */
function forBlocks(
  kernel: FunctionBuilder,
  instructions: VectorInstructions,
  byteLength: Code<'usize'>,
  body: (offset: Local<'usize'>, places: readonly Place[]) => void,
): void {
  const block = Array.from({ length: BLOCK_VECTORS }, (_, index): Place => {
    const byteOffset = index * VECTOR_BYTES;
    return {
      load: (address) => v128.load(address, byteOffset),
      store: (address, value) => v128.store(address, value, byteOffset),
    };
  });
  const element: Place = { load: instructions.loadOne, store: instructions.storeOne };
  const offset = kernel.let(usize.const(0));
  kernel.forSteps(offset, BLOCK_VECTORS * VECTOR_BYTES, byteLength, () => body(offset, block));
  kernel.forSteps(offset, instructions.elementBytes, byteLength, () => body(offset, [element]));
}

function typedEntries<K extends string, V>(table: Readonly<Record<K, V>>): readonly [K, V][] {
  const isKey = (key: string): key is K => key in table;
  return Object.keys(table)
    .filter(isKey)
    .map((key) => [key, table[key]]);
}
