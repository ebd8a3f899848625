import type { DType, ReduceOp } from '@shardwise/core/spec';
import {
  assemble,
  f32,
  f64,
  get,
  i32,
  i32Add,
  i32Const,
  i32Load,
  i32LtU,
  i32Sub,
  increment,
  memoryCopy,
  set,
  simd,
  u32,
  v128,
  whileLoop,
  type Code,
  type MemoryKind,
  type WasmFunction,
} from './assembler.ts';

/** Lanes per vector and the vector instructions of a dtype; no division where averages are refused. */
interface Lanes {
  readonly scalar: number;
  readonly splat: number;
  readonly add: number;
  readonly mul: number;
  readonly min: number;
  readonly max: number;
  readonly div: number | undefined;
  readonly loadOne: number;
  readonly storeOne: number;
  readonly elementBytes: number;
}

export type KernelDType = 'f32' | 'f64' | 'i32';
export type KernelOp = 'sum' | 'avg' | 'product' | 'min' | 'max' | 'premultipliedSum';

export function isKernelDType(dtype: DType): dtype is KernelDType {
  return dtype === 'f32' || dtype === 'f64' || dtype === 'i32';
}

/** Undefined for what has no kernel. */
export function kernelOpOf(op: ReduceOp): KernelOp | undefined {
  if (typeof op === 'object') return 'premultipliedSum';
  return op === 'and' || op === 'or' || op === 'xor' ? undefined : op;
}

const lanesOf: Record<KernelDType, Lanes> = {
  f32: {
    scalar: f32,
    splat: 0x13,
    add: 0xe4,
    mul: 0xe6,
    div: 0xe7,
    min: 0xe8,
    max: 0xe9,
    loadOne: 0x5c,
    storeOne: 0x5a,
    elementBytes: 4,
  },
  f64: {
    scalar: f64,
    splat: 0x14,
    add: 0xf0,
    mul: 0xf2,
    div: 0xf3,
    min: 0xf4,
    max: 0xf5,
    loadOne: 0x5d,
    storeOne: 0x5b,
    elementBytes: 8,
  },
  i32: {
    scalar: i32,
    splat: 0x11,
    add: 0xae,
    mul: 0xb5,
    div: undefined,
    min: 0xb6,
    max: 0xb8,
    loadOne: 0x5c,
    storeOne: 0x5a,
    elementBytes: 4,
  },
};

/** What is done to a value as it is loaded, to two values, and to the result. */
interface Recipe {
  readonly scaleLoads: boolean;
  readonly combine: 'add' | 'mul' | 'min' | 'max';
  readonly divideResult: boolean;
}

const recipes: Record<KernelOp, Recipe> = {
  sum: { scaleLoads: false, combine: 'add', divideResult: false },
  avg: { scaleLoads: false, combine: 'add', divideResult: true },
  product: { scaleLoads: false, combine: 'mul', divideResult: false },
  min: { scaleLoads: false, combine: 'min', divideResult: false },
  max: { scaleLoads: false, combine: 'max', divideResult: false },
  premultipliedSum: { scaleLoads: true, combine: 'add', divideResult: false },
};

/**
 * Reduces two buffers in place into both. Parameters: first, second, byteLength, scale. Addresses
 * are byte offsets; scale is the factor of premultipliedSum and the divisor of avg.
 */
export function pairKernelName(dtype: KernelDType, op: KernelOp): string {
  return `pair ${dtype} ${op}`;
}

/**
 * Reduces any number of sources into any number of destinations, whose addresses lie in memory, from
 * `table` to `sourcesEnd` and on to `tableEnd`. Parameters: table, sourcesEnd, tableEnd, byteLength,
 * scale.
 */
export function tableKernelName(dtype: KernelDType, op: KernelOp): string {
  return `table ${dtype} ${op}`;
}

/** Loads and stores of one loop: eight whole vectors a turn, or one element. */
interface Access {
  readonly vectors: number;
  readonly turnBytes: number;
  readonly load: (vector: number) => Code;
  readonly store: (vector: number) => Code;
}

const VECTOR_BYTES = 16;
const UNROLL = 8;
const BLOCK_BYTES = VECTOR_BYTES * UNROLL;

function accessesOf(lanes: Lanes): readonly [Access, Access] {
  const block: Access = {
    vectors: UNROLL,
    turnBytes: BLOCK_BYTES,
    load: (vector) => [...simd(0x00), 0, ...u32(vector * VECTOR_BYTES)],
    store: (vector) => [...simd(0x0b), 0, ...u32(vector * VECTOR_BYTES)],
  };
  const element: Access = {
    vectors: 1,
    turnBytes: lanes.elementBytes,
    load: () => [...simd(lanes.loadOne), 0, 0],
    store: () => [...simd(lanes.storeOne), 0, 0, 0],
  };
  return [block, element];
}

/** Module with a `copy` and, for each dtype and op, a pair and a table kernel. */
export function reduceKernelModule(memoryKind: MemoryKind = 'shared'): Uint8Array<ArrayBuffer> {
  const functions: WasmFunction[] = [
    {
      name: 'copy',
      params: [i32, i32, i32],
      locals: [],
      body: [...get(0), ...get(1), ...get(2), ...memoryCopy],
    },
  ];
  for (const [dtype, lanes] of typedEntries(lanesOf)) {
    for (const [op, recipe] of typedEntries(recipes)) {
      if (recipe.divideResult && lanes.div === undefined) continue;
      functions.push(pairKernel(pairKernelName(dtype, op), lanes, recipe));
      functions.push(tableKernel(tableKernelName(dtype, op), lanes, recipe));
    }
  }
  return assemble(functions, memoryKind);
}

function pairKernel(name: string, lanes: Lanes, recipe: Recipe): WasmFunction {
  const [first, second, byteLength, scale] = [0, 1, 2, 3];
  const [offset, end, factor, accumulators] = [4, 5, 6, 7];
  const at = (base: number): Code => [...get(base), ...get(offset), ...i32Add];
  const turn = (access: Access): Code => [
    ...range(access.vectors).flatMap((vector) => [
      ...at(first),
      ...scaled(access.load(vector), lanes, recipe, factor),
      ...at(second),
      ...scaled(access.load(vector), lanes, recipe, factor),
      ...simd(lanes[recipe.combine]),
      ...divided(lanes, recipe, factor),
      ...set(accumulators + vector),
    ]),
    ...[first, second].flatMap((destination) => storeAll(access, at(destination), accumulators)),
    ...increment(offset, access.turnBytes),
  ];
  return {
    name,
    params: [i32, i32, i32, lanes.scalar],
    locals: [i32, i32, v128, ...range(UNROLL).map(() => v128)],
    body: [...splat(lanes, scale, factor), ...twoLoops({ offset, end, byteLength }, lanes, turn)],
  };
}

function tableKernel(name: string, lanes: Lanes, recipe: Recipe): WasmFunction {
  const [table, sourcesEnd, tableEnd, byteLength, scale] = [0, 1, 2, 3, 4];
  const [offset, end, cursor, address, factor, accumulators] = [5, 6, 7, 8, 9, 10];
  const nextAddress: Code = [
    ...get(cursor),
    ...i32Load(0),
    ...get(offset),
    ...i32Add,
    ...set(address),
    ...increment(cursor, 4),
  ];
  const each = (stop: number, body: Code): Code =>
    whileLoop([...get(cursor), ...get(stop), ...i32LtU], [...nextAddress, ...body]);
  const turn = (access: Access): Code => {
    const loadOf = (vector: number): Code => [
      ...get(address),
      ...scaled(access.load(vector), lanes, recipe, factor),
    ];
    const vectors = range(access.vectors);
    return [
      ...get(table),
      ...set(cursor),
      ...nextAddress,
      ...vectors.flatMap((vector) => [...loadOf(vector), ...set(accumulators + vector)]),
      ...each(
        sourcesEnd,
        vectors.flatMap((vector) => [
          ...get(accumulators + vector),
          ...loadOf(vector),
          ...simd(lanes[recipe.combine]),
          ...set(accumulators + vector),
        ]),
      ),
      ...vectors.flatMap((vector) =>
        recipe.divideResult
          ? [
              ...get(accumulators + vector),
              ...divided(lanes, recipe, factor),
              ...set(accumulators + vector),
            ]
          : [],
      ),
      ...each(tableEnd, storeAll(access, get(address), accumulators)),
      ...increment(offset, access.turnBytes),
    ];
  };
  return {
    name,
    params: [i32, i32, i32, i32, lanes.scalar],
    locals: [i32, i32, i32, i32, v128, ...range(UNROLL).map(() => v128)],
    body: [...splat(lanes, scale, factor), ...twoLoops({ offset, end, byteLength }, lanes, turn)],
  };
}

/** Whole blocks first, then the elements that are left. */
function twoLoops(
  locals: { readonly offset: number; readonly end: number; readonly byteLength: number },
  lanes: Lanes,
  turn: (access: Access) => Code,
): Code {
  const { offset, end, byteLength } = locals;
  const [block, element] = accessesOf(lanes);
  const remainder: Code = [...get(byteLength), ...i32Const(BLOCK_BYTES - 1), 0x71];
  const before = (stop: number): Code => [...get(offset), ...get(stop), ...i32LtU];
  return [
    ...get(byteLength),
    ...remainder,
    ...i32Sub,
    ...set(end),
    ...whileLoop(before(end), turn(block)),
    ...whileLoop(before(byteLength), turn(element)),
  ];
}

function splat(lanes: Lanes, scale: number, factor: number): Code {
  return [...get(scale), ...simd(lanes.splat), ...set(factor)];
}

function scaled(load: Code, lanes: Lanes, recipe: Recipe, factor: number): Code {
  return recipe.scaleLoads ? [...load, ...get(factor), ...simd(lanes.mul)] : load;
}

function divided(lanes: Lanes, recipe: Recipe, factor: number): Code {
  if (!recipe.divideResult || lanes.div === undefined) return [];
  return [...get(factor), ...simd(lanes.div)];
}

function storeAll(access: Access, address: Code, accumulators: number): Code {
  return range(access.vectors).flatMap((vector) => [
    ...address,
    ...get(accumulators + vector),
    ...access.store(vector),
  ]);
}

function range(count: number): readonly number[] {
  return Array.from({ length: count }, (_, index) => index);
}

function typedEntries<K extends string, V>(table: Readonly<Record<K, V>>): readonly [K, V][] {
  const isKey = (key: string): key is K => key in table;
  return Object.keys(table)
    .filter(isKey)
    .map((key) => [key, table[key]]);
}
