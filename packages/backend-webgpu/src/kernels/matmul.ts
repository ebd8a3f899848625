import type { DeviceTraits } from './device-traits.ts';
import type { Emitter } from '../emit/emitter.ts';
import type { Along, Kernel, KernelScope } from '../emit/kernel.ts';
import { countOf, inputAt, type Values } from '../program/values.ts';
import { storageOf } from '../wgsl/registers.ts';
import { pointwise, storeElements } from './pointwise.ts';
import {
  halfOf,
  laneOf,
  type MatmulInstruction,
  type Operand,
  type Product,
  readElement,
  vectorOf,
  vectorType,
} from './product.ts';
import { blocksOf, type GroupPlace, sharedVector } from './product-blocks.ts';
import { sidesOf, tileFor } from './product-tile.ts';

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
  const matrices = countOf(shape.slice(0, -2));
  const tile = tileFor({ matrices, rows, columns }, traits.tiles);
  const lanes = tile.perThread.every((count) => count % 4 === 0) ? 4 : 1;
  const [tileRows, tileColumns] = sidesOf(tile);
  const operandOf = (at: 0 | 1): Operand => {
    const id = inputAt(instruction, at);
    return {
      id,
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
    groups: [Math.ceil(columns / tileColumns), Math.ceil(rows / tileRows), matrices],
    numbers: [],
    along: alongOf(values, product, root),
    ...(tile.depth === 0
      ? {}
      : {
          shared: operands
            .map((operand) => {
              const type = vectorType(product, operand.half === undefined ? undefined : 'f16');
              return `var<workgroup> ${operand.name}: array<${type}, ${(tile.depth * operand.tile) / lanes}>;`;
            })
            .join('\n'),
        }),
    body: (scope) => {
      const { emitter } = scope;
      const place: TilePlace = {
        ...threadsOf(emitter, product),
        first: {
          left: emitter.let(`group.y * ${tileRows}u`),
          right: emitter.let(`group.x * ${tileColumns}u`),
        },
      };
      const sums = declareSums(emitter, product);
      if (tile.depth === 0) fromMemory(emitter, product, sums, place);
      else throughTiles(emitter, product, sums, place);
      store(scope, product, {
        sums,
        place,
        root,
        roots: epilogue.length === 0 ? [root] : epilogue,
      });
    },
  };
}

/** Where a thread is in its group's tile: its first vector of rows (`left`) and of columns (`right`). */
interface TilePlace extends GroupPlace {
  readonly own: Readonly<Record<Operand['name'], string>>;
}

/**
 * In workgroup memory, threads that run together read the same vectors if they lie in a square of the tile, so 32 of
 * them have 4 rows and 8 columns.
 */
function threadsOf(emitter: Emitter, { tile }: Product): Pick<TilePlace, 'thread' | 'own'> {
  const [, columns] = tile.threads;
  const thread = emitter.let(`thread.x + thread.y * ${columns}u`);
  if (tile.depth === 0) return { thread, own: { left: 'thread.y', right: 'thread.x' } };
  const across = columns / 8;
  const square = emitter.let(`${thread} / 32u`);
  return {
    thread,
    own: {
      left: emitter.let(`${square} / ${across}u * 4u + ${thread} / 8u % 4u`),
      right: emitter.let(`${square} % ${across}u * 8u + ${thread} % 8u`),
    },
  };
}

/** Each thread reads its operands from memory, term by term. */
function fromMemory(emitter: Emitter, product: Product, sums: Sums, place: TilePlace): void {
  const loop = emitter.inner();
  multiply(loop, product, sums, (operand) => readVectors(emitter, loop, product, operand, place));
  emitter.line(`for (var k = 0u; k < ${product.depth}u; k++) {\n${loop.text}\n}`);
}

/**
 * The group reads tiles of both operands into workgroup memory. While threads multiply the elements of a tile, those of
 * the next one are on their way into registers.
 */
function throughTiles(emitter: Emitter, product: Product, sums: Sums, place: TilePlace): void {
  const { tile, depth } = product;
  const blocks = blocksOf(product, place);
  blocks.declare(emitter);
  blocks.read(emitter, '0u');
  const outside = emitter.inner();
  const loop = emitter.inner();
  blocks.write(loop);
  loop.line('workgroupBarrier();');
  const next = loop.inner();
  blocks.read(next, 'next');
  loop.line(`if (next < ${depth}u) {\n${next.text}\n}`);
  for (let k = 0; k < tile.depth; k++) {
    const inner = loop.inner();
    multiply(inner, product, sums, (operand) =>
      sharedVectors(outside, inner, product, operand, place, k),
    );
    loop.line(`{\n${inner.text}\n}`);
  }
  loop.line('workgroupBarrier();');
  emitter.line(outside.text);
  const end = depth + tile.depth;
  emitter.line(
    `for (var next = ${tile.depth}u; next < ${end}u; next += ${tile.depth}u) {\n${loop.text}\n}`,
  );
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
  const [tileRows] = sidesOf(tile);
  const inputs = left.depthIsLast ? [[left.id, tileRows * depth] as const] : [];
  return { dim: 1, elements: tileRows * columns, root, inputs: new Map(inputs) };
}

/** The names of a thread's sums, by row and by vector of columns. */
type Sums = readonly (readonly string[])[];

function declareSums(emitter: Emitter, product: Product): Sums {
  const { tile, lanes } = product;
  const type = vectorType(product);
  const [rows, columns] = tile.perThread;
  return Array.from({ length: rows }, (_, row) =>
    Array.from({ length: columns / lanes }, (_unused, column) => {
      const name = `sum${row}_${column}`;
      emitter.line(`var ${name} = ${type}(0);`);
      return name;
    }),
  );
}

/** Adds the k-th term to each sum of a thread. `vectorsOf` names the thread's elements of an operand, as vectors. */
function multiply(
  inner: Emitter,
  product: Product,
  sums: Sums,
  vectorsOf: (operand: Operand) => readonly string[],
): void {
  const { operands, lanes } = product;
  const [ofLeft = [], ofRight = []] = operands.map(vectorsOf);
  for (const [row, ofRow] of sums.entries()) {
    const factor = laneOf(product, ofLeft[Math.floor(row / lanes)] ?? '', row % lanes);
    for (const [column, sum] of ofRow.entries())
      inner.line(`${sum} += ${factor} * ${ofRight[column] ?? ''};`);
  }
}

/** How many threads share out an operand, and how many vectors each has. */
function sharedOut({ tile, lanes }: Product, { name }: Operand) {
  const dim = name === 'left' ? 0 : 1;
  return { threads: tile.threads[dim], vectors: tile.perThread[dim] / lanes };
}

/** A thread's vectors of an operand from workgroup memory, for the term `k` of the tile. */
function sharedVectors(
  outside: Emitter,
  inner: Emitter,
  product: Product,
  operand: Operand,
  { own }: TilePlace,
  k: number,
): readonly string[] {
  const { threads, vectors } = sharedOut(product, operand);
  return Array.from({ length: vectors }, (_, vector) => {
    const at = { own: own[operand.name], before: vector * threads, k };
    return inner.let(sharedVector(outside, product, operand, at));
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
  { own, first }: TilePlace,
): readonly string[] {
  const { lanes } = product;
  const { threads, vectors } = sharedOut(product, operand);
  return Array.from({ length: vectors }, (_, vector) => {
    const elements = Array.from({ length: lanes }, (_unused, lane) => {
      const start = `${first[operand.name]} + (${own[operand.name]} + ${vector * threads}u) * ${lanes}u`;
      const outer = outside.let(`min(${start} + ${lane}u, ${operand.size - 1}u)`);
      return readElement(loop, product, operand, { outer, inner: 'k' });
    });
    return loop.let(vectorOf(product, elements));
  });
}

interface Stored {
  readonly sums: Sums;
  readonly place: TilePlace;
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
  product: Product,
  { sums, place: { first, own }, root, roots }: Stored,
): void {
  const { emitter } = scope;
  const { values, instruction, tile, lanes } = product;
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
    `${first.left} + (${own.left} + ${ownRow} / ${lanes}u * ${threadRows}u) * ${lanes}u + ${ownRow} % ${lanes}u`,
  );
  for (let lane = 0; lane < lanes; lane++) {
    const column = each.let(
      `${first.right} + (${own.right} + ${ownColumn} * ${threadColumns}u) * ${lanes}u + ${lane}u`,
    );
    each.line(`if (${row} < ${rows}u && ${column} < ${columns}u) {`);
    const inner = each.inner();
    const linear = inner.let(`(group.z * ${rows}u + ${row}) * ${columns}u + ${column}`);
    inner.keep(root, { linear }, laneOf(product, 'sum', lane));
    storeElements(scope, values, roots, linear, inner);
    each.line(`${inner.text}\n}`);
  }
  emitter.line(`for (var part = 0u; part < ${vectors.length}u; part++) {\n${each.text}\n}`);
}
