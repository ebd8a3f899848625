import type { Instruction, Shape } from '@shardwise/core/spec';
import type { DeviceTraits } from '../compile/device-traits.ts';
import type { Emitter } from '../compile/emitter.ts';
import type { Along, Kernel, KernelScope } from '../compile/kernel.ts';
import { countOf, inputAt, type Values } from '../compile/values.ts';
import { storageOf } from '../wgsl/registers.ts';
import { pointwise, storeElements } from './pointwise.ts';
import { type ProductTile, tileFor } from './product-tile.ts';

export type MatmulInstruction = Extract<Instruction, { op: 'matmul' }>;

/**
 * An operand of a product. Its rows (or its columns, on the right) lie in the result, and the sum runs along its other
 * dim.
 */
interface Operand {
  readonly id: number;
  readonly name: 'left' | 'right';
  /** The number of elements along the dim that lies in the result. */
  readonly size: number;
  /** Whether elements along the sum lie next to each other in memory. */
  readonly depthIsLast: boolean;
  /** The f16 value from which the operand is cast, if the device can hold f16 in workgroup memory. */
  readonly half: number | undefined;
  /** The elements of the tile along the dim that lies in the result, and in `lanes` how many of them a vector has. */
  readonly tile: number;
  readonly lanes: 1 | 4;
}

interface Product {
  readonly values: Values;
  readonly instruction: MatmulInstruction;
  readonly operands: readonly [Operand, Operand];
  readonly depth: number;
  readonly tile: ProductTile;
  readonly lanes: 1 | 4;
}

/**
 * A product of matrices. A group of threads makes a tile of the result. It reads tiles of both operands into workgroup
 * memory, in vectors of four, or each thread reads for itself what it needs. Operands of f16 stay f16 in workgroup
 * memory if the device has the feature, but terms and sums are always f32. `epilogue` are values of which each element
 * follows from the same element of the product. If there are any, only these are written.
 * Shape: a [B, M, K], b [B', K, N] -> [B'', M, N].
 */
export function matmul(
  values: Values,
  root: number,
  instruction: MatmulInstruction,
  {
    reads,
    traits,
    epilogue = [],
  }: {
    readonly reads: readonly number[];
    readonly traits: DeviceTraits;
    readonly epilogue?: readonly number[];
  },
): Kernel {
  const { transposeA, transposeB } = instruction.params;
  const { shape, dtype } = instruction;
  const [rows = 1, columns = 1] = shape.slice(-2);
  const depth = values.shape(inputAt(instruction, 0)).at(transposeA ? -2 : -1) ?? 1;
  const { register } = storageOf[dtype];
  if (depth === 0) return pointwise(values, [root], [], 'matmul', () => `${register}(0)`);
  const tile = tileFor(rows, columns, traits.tile);
  const lanes = tile.perThread.every((count) => count % 4 === 0) ? 4 : 1;
  const tileRows = tile.threads[0] * tile.perThread[0];
  const tileColumns = tile.threads[1] * tile.perThread[1];
  const operandOf = (at: 0 | 1): Operand => {
    const id = inputAt(instruction, at);
    return {
      id,
      lanes,
      half: traits.computesF16 ? halfOf(values, id) : undefined,
      ...(at === 0
        ? { name: 'left', size: rows, tile: tileRows, depthIsLast: !transposeA }
        : { name: 'right', size: columns, tile: tileColumns, depthIsLast: transposeB }),
    };
  };
  const operands = [operandOf(0), operandOf(1)] as const;
  const product: Product = { values, instruction, operands, depth, tile, lanes };
  return {
    label: 'matmul',
    reads,
    writes: epilogue.length === 0 ? [root] : epilogue,
    ...(epilogue.length === 0 ? { product: root } : {}),
    workgroup: [tile.threads[1], tile.threads[0]],
    groups: [
      Math.ceil(columns / tileColumns),
      Math.ceil(rows / tileRows),
      countOf(shape.slice(0, -2)),
    ],
    numbers: [],
    along: alongOf(values, product, root),
    ...(tile.depth === 0
      ? {}
      : {
          shared: operands
            .map((operand) => {
              const type = vectorOf(lanes, operand.half === undefined ? register : 'f16');
              return `var<workgroup> ${operand.name}: array<${type}, ${(tile.depth * operand.tile) / lanes}>;`;
            })
            .join('\n'),
        }),
    body: (scope) => {
      const { emitter } = scope;
      const first = {
        left: emitter.let(`group.y * ${tileRows}u`),
        right: emitter.let(`group.x * ${tileColumns}u`),
      };
      const sums = declareSums(emitter, product);
      if (tile.depth === 0) {
        const loop = emitter.inner();
        multiply(loop, product, sums, (operand) =>
          readVectors(emitter, loop, product, operand, first[operand.name]),
        );
        emitter.line(`for (var k = 0u; k < ${depth}u; k++) {\n${loop.text}\n}`);
      } else {
        const loop = emitter.inner();
        for (const operand of operands) fill(loop, product, operand, first[operand.name]);
        loop.line('workgroupBarrier();');
        const inner = loop.inner();
        multiply(inner, product, sums, (operand) => sharedVectors(inner, product, operand));
        loop.line(`for (var k = 0u; k < ${tile.depth}u; k++) {\n${inner.text}\n}`);
        loop.line('workgroupBarrier();');
        emitter.line(`for (var k0 = 0u; k0 < ${depth}u; k0 += ${tile.depth}u) {\n${loop.text}\n}`);
      }
      store(scope, product, {
        sums,
        first,
        root,
        roots: epilogue.length === 0 ? [root] : epilogue,
      });
    },
  };
}

/**
 * How the result lies along groups. The rows of one matrix, or the matrices of a batch, lie one after the other in it,
 * and also in some operands.
 */
function alongOf(
  values: Values,
  { instruction, operands: [left, right], tile, depth }: Product,
  root: number,
): Along {
  const { shape } = instruction;
  const [rows = 1, columns = 1] = shape.slice(-2);
  const count = countOf(shape.slice(0, -2));
  if (count > 1) {
    const inputs = [left, right].flatMap(({ id, size }) =>
      countOf(values.shape(id)) === count * size * depth ? [[id, size * depth] as const] : [],
    );
    return { dim: 2, elements: rows * columns, root, inputs: new Map(inputs) };
  }
  const tileRows = tile.threads[0] * tile.perThread[0];
  const inputs = left.depthIsLast ? [[left.id, tileRows * depth] as const] : [];
  return { dim: 1, elements: tileRows * columns, root, inputs: new Map(inputs) };
}

function halfOf(values: Values, id: number): number | undefined {
  const instruction = values.instruction(id);
  if (instruction?.op !== 'cast') return undefined;
  const source = inputAt(instruction, 0);
  return values.type(source).dtype === 'f16' ? source : undefined;
}

function vectorOf(lanes: 1 | 4, register: string): string {
  return lanes === 1 ? register : `vec4<${register}>`;
}

/** The names of a thread's sums, by row and by vector of columns. */
type Sums = readonly (readonly string[])[];

function declareSums(emitter: Emitter, { instruction, tile, lanes }: Product): Sums {
  const type = vectorOf(lanes, storageOf[instruction.dtype].register);
  const [rows, columns] = tile.perThread;
  return Array.from({ length: rows }, (_, row) =>
    Array.from({ length: columns / lanes }, (_unused, column) => {
      const name = `sum${row}_${column}`;
      emitter.line(`var ${name} = ${type}(0);`);
      return name;
    }),
  );
}

/**
 * Reads a tile of an operand. Neighbouring threads read neighbouring elements, whether or not the operand is
 * transposed.
 */
function fill(
  loop: Emitter,
  { values, instruction, depth, tile }: Product,
  { id, name, size, depthIsLast, half, tile: along, lanes }: Operand,
  start: string,
): void {
  const { register } = storageOf[instruction.dtype];
  const [threadRows, threadColumns] = tile.threads;
  const threads = threadRows * threadColumns;
  const blocks = along / lanes;
  const vector = vectorOf(lanes, half === undefined ? register : 'f16');
  const scope = loop.inner();
  const k = scope.let(depthIsLast ? `at % ${tile.depth}u` : `at / ${blocks}u`);
  const block = scope.let(depthIsLast ? `at / ${tile.depth}u` : `at % ${blocks}u`);
  const inner = scope.let(`k0 + ${k}`);
  const elements = Array.from({ length: lanes }, (_, lane) => {
    const outer = scope.let(`${start} + ${block} * ${lanes}u${lane === 0 ? '' : ` + ${lane}u`}`);
    const order = depthIsLast ? ([outer, inner] as const) : ([inner, outer] as const);
    const dims = [...batchDims(scope, values.shape(id), instruction.shape), ...order];
    const inside = `${outer} < ${size}u && ${inner} < ${depth}u`;
    if (half === undefined)
      return `select(${register}(0), ${scope.value(id, { dims })}, ${inside})`;
    return `bitcast<vec2<f16>>(select(0u, ${scope.value(half, { dims })}, ${inside})).x`;
  });
  const value = lanes === 1 ? (elements[0] ?? '') : `${vector}(${elements.join(', ')})`;
  scope.line(`${name}[${k} * ${blocks}u + ${block}] = ${value};`);
  // This is a loop in WGSL, because drivers take long to compile an unrolled one.
  const first = `thread.x + thread.y * ${threadColumns}u`;
  loop.line(
    `for (var at = ${first}; at < ${tile.depth * blocks}u; at += ${threads}u) {\n${scope.text}\n}`,
  );
}

/** The index of an operand's matrix in its batch. Several matrices of the result may use the same one. */
function batchDims(emitter: Emitter, operand: Shape, result: Shape): readonly string[] {
  const batch = result.slice(0, -2);
  const sizes = operand.slice(0, -2);
  const own = emitter.dims({ linear: 'group.z' }, batch).slice(batch.length - sizes.length);
  return own.map((at, dim) => (sizes[dim] === 1 ? '0u' : at));
}

/** Adds the k-th term to each sum of a thread. `vectorsOf` names the thread's elements of an operand, as vectors. */
function multiply(
  inner: Emitter,
  { operands: [left, right], lanes }: Product,
  sums: Sums,
  vectorsOf: (operand: Operand) => readonly string[],
): void {
  const [ofLeft, ofRight] = [vectorsOf(left), vectorsOf(right)];
  for (const [row, ofRow] of sums.entries()) {
    const vector = ofLeft[Math.floor(row / lanes)] ?? '';
    const factor = lanes === 1 ? vector : `${vector}.${'xyzw'[row % 4] ?? 'x'}`;
    for (const [column, sum] of ofRow.entries())
      inner.line(`${sum} += ${factor} * ${ofRight[column] ?? ''};`);
  }
}

/**
 * How threads share out an operand: the thread's position along it, how many threads there are, and how many vectors
 * each has.
 */
function sharedOut({ tile, lanes }: Product, { name }: Operand) {
  const [axis, dim] = name === 'left' ? (['y', 0] as const) : (['x', 1] as const);
  return {
    thread: `thread.${axis}`,
    threads: tile.threads[dim],
    vectors: tile.perThread[dim] / lanes,
  };
}

/** Reads a thread's vectors of an operand from workgroup memory. */
function sharedVectors(inner: Emitter, product: Product, operand: Operand): readonly string[] {
  const { name, half, tile: along, lanes } = operand;
  const { thread, threads, vectors } = sharedOut(product, operand);
  const type = vectorOf(lanes, storageOf[product.instruction.dtype].register);
  return Array.from({ length: vectors }, (_, vector) => {
    const element = `${name}[k * ${along / lanes}u + ${thread} + ${vector * threads}u]`;
    return inner.let(half === undefined ? element : `${type}(${element})`);
  });
}

/**
 * Reads a thread's vectors of an operand from memory. Beyond the end, the last elements are read again, and what is
 * computed of them is not stored.
 */
function readVectors(
  outside: Emitter,
  loop: Emitter,
  product: Product,
  operand: Operand,
  start: string,
): readonly string[] {
  const { id, half, size, depthIsLast, lanes } = operand;
  const { instruction, values } = product;
  const { thread, threads, vectors } = sharedOut(product, operand);
  const type = vectorOf(lanes, storageOf[instruction.dtype].register);
  const batch = batchDims(outside, values.shape(id), instruction.shape);
  return Array.from({ length: vectors }, (_, vector) => {
    const elements = Array.from({ length: lanes }, (_unused, lane) => {
      const own = `${start} + (${thread} + ${vector * threads}u) * ${lanes}u + ${lane}u`;
      const outer = outside.let(`min(${own}, ${size - 1}u)`);
      const dims = [...batch, ...(depthIsLast ? [outer, 'k'] : ['k', outer])];
      if (half === undefined) return loop.value(id, { dims });
      return `f32(bitcast<vec2<f16>>(${loop.value(half, { dims })}).x)`;
    });
    return loop.let(lanes === 1 ? (elements[0] ?? '') : `${type}(${elements.join(', ')})`);
  });
}

interface Stored {
  readonly sums: Sums;
  readonly first: Readonly<Record<'left' | 'right', string>>;
  readonly root: number;
  /** The values that are written. */
  readonly roots: readonly number[];
}

/**
 * Writes a thread's results. One text serves for all its vectors, because a driver takes long to compile an epilogue
 * for each.
 */
function store(
  scope: KernelScope,
  { values, instruction, tile, lanes }: Product,
  { sums, first, root, roots }: Stored,
): void {
  const { emitter } = scope;
  const [rows = 1, columns = 1] = instruction.shape.slice(-2);
  const [threadRows, threadColumns] = tile.threads;
  const vectors = sums.flat();
  const perRow = (sums[0] ?? []).length;
  const each = emitter.inner();
  each.line(`var sum = ${vectors[0] ?? ''};`);
  if (vectors.length > 1) {
    const cases = vectors.map((name, number) => `case ${number}u: { sum = ${name}; }`);
    each.line(`switch part {\n${cases.join('\n')}\ndefault: {}\n}`);
  }
  const [ownRow, ownColumn] = [each.let(`part / ${perRow}u`), each.let(`part % ${perRow}u`)];
  const row = each.let(
    `${first.left} + (thread.y + ${ownRow} / ${lanes}u * ${threadRows}u) * ${lanes}u + ${ownRow} % ${lanes}u`,
  );
  for (let lane = 0; lane < lanes; lane++) {
    const column = each.let(
      `${first.right} + (thread.x + ${ownColumn} * ${threadColumns}u) * ${lanes}u + ${lane}u`,
    );
    each.line(`if (${row} < ${rows}u && ${column} < ${columns}u) {`);
    const inner = each.inner();
    const linear = inner.let(`(group.z * ${rows}u + ${row}) * ${columns}u + ${column}`);
    inner.keep(root, { linear }, lanes === 1 ? 'sum' : `sum.${'xyzw'[lane] ?? 'x'}`);
    storeElements(scope, values, roots, linear, inner);
    each.line(`${inner.text}\n}`);
  }
  emitter.line(`for (var part = 0u; part < ${vectors.length}u; part++) {\n${each.text}\n}`);
}
