import type { Instruction } from '@shardwise/core/spec';
import type { Emitter } from '../compile/emitter.ts';
import type { Kernel } from '../compile/kernel.ts';
import { countOf, inputAt, type Values } from '../compile/values.ts';
import { storageOf } from '../wgsl/registers.ts';
import { pointwise, storeElements } from './pointwise.ts';

export type MatmulInstruction = Extract<Instruction, { op: 'matmul' }>;

/** Threads along both dims of a group, and how many outputs each makes along them. */
const threads = 16;
const depthTile = 16;

/**
 * A product of matrices: a group of threads makes a tile of the result, and reads tiles of both operands into workgroup memory.
 * `epilogue` are values of which each element follows from that of the product; then only these are written.
 * Shape: a [B, M, K], b [B', K, N] -> [B'', M, N].
 */
export function matmul(
  values: Values,
  root: number,
  instruction: MatmulInstruction,
  reads: readonly number[],
  epilogue: readonly number[] = [],
): Kernel {
  const { transposeA, transposeB } = instruction.params;
  const [a, b] = [inputAt(instruction, 0), inputAt(instruction, 1)];
  const { shape, dtype } = instruction;
  const [rows = 1, columns = 1] = shape.slice(-2);
  const batch = shape.slice(0, -2);
  const depth = values.shape(a).at(transposeA ? -2 : -1) ?? 1;
  const { register } = storageOf[dtype];
  if (depth === 0) return pointwise(values, [root], [], 'matmul', () => `${register}(0)`);
  const perThread = rows >= 48 && columns >= 48 ? 4 : rows >= 24 && columns >= 24 ? 2 : 1;
  const tile = threads * perThread;
  /** The element of an operand in row `at` and column `k`, as a product sees it; 0 outside. */
  const operand = (
    emitter: Emitter,
    id: number,
    [first, second]: readonly [string, string],
    inside: string,
  ): string => {
    const sizes = values.shape(id).slice(0, -2);
    const own = emitter.dims({ linear: 'group.z' }, batch).slice(batch.length - sizes.length);
    const dims = [...own.map((at, dim) => (sizes[dim] === 1 ? '0u' : at)), first, second];
    return `select(${register}(0), ${emitter.value(id, { dims })}, ${inside})`;
  };
  return {
    label: 'matmul',
    reads,
    writes: epilogue.length === 0 ? [root] : epilogue,
    ...(epilogue.length === 0 ? { product: root } : {}),
    workgroup: [threads, threads],
    groups: [Math.ceil(columns / tile), Math.ceil(rows / tile), countOf(batch)],
    numbers: [],
    shared: [
      `var<workgroup> left: array<${register}, ${depthTile * tile}>;`,
      `var<workgroup> right: array<${register}, ${depthTile * tile}>;`,
    ].join('\n'),
    body: (scope) => {
      const { emitter } = scope;
      const lane = emitter.let(`thread.x + thread.y * ${threads}u`);
      const [firstRow, firstColumn] = [
        emitter.let(`group.y * ${tile}u`),
        emitter.let(`group.x * ${tile}u`),
      ];
      for (let i = 0; i < perThread * perThread; i++) emitter.line(`var sum${i} = ${register}(0);`);
      const loop = emitter.inner();
      // Threads that lie next to each other read elements that do, in either way of the operands.
      const fill = (
        name: 'left' | 'right',
        id: number,
        start: string,
        size: number,
        depthIsLast: boolean,
      ): void => {
        for (let part = 0; part < perThread; part++) {
          const scope = loop.inner();
          const at = scope.let(`${lane} + ${part * threads * threads}u`);
          const k = scope.let(depthIsLast ? `${at} % ${depthTile}u` : `${at} / ${tile}u`);
          const along = scope.let(depthIsLast ? `${at} / ${depthTile}u` : `${at} % ${tile}u`);
          const [outer, inner] = [scope.let(`${start} + ${along}`), scope.let(`k0 + ${k}`)];
          const order = depthIsLast ? ([outer, inner] as const) : ([inner, outer] as const);
          const element = operand(scope, id, order, `${outer} < ${size}u && ${inner} < ${depth}u`);
          scope.line(`${name}[${k} * ${tile}u + ${along}] = ${element};`);
          loop.line(`{\n${scope.text}\n}`);
        }
      };
      fill('left', a, firstRow, rows, !transposeA);
      fill('right', b, firstColumn, columns, transposeB);
      loop.line('workgroupBarrier();');
      const product = loop.inner();
      for (let i = 0; i < perThread; i++) {
        product.line(`let a${i} = left[k * ${tile}u + thread.y + ${i * threads}u];`);
        product.line(`let b${i} = right[k * ${tile}u + thread.x + ${i * threads}u];`);
      }
      for (let i = 0; i < perThread; i++) {
        for (let j = 0; j < perThread; j++)
          product.line(`sum${i * perThread + j} += a${i} * b${j};`);
      }
      loop.line(`for (var k = 0u; k < ${depthTile}u; k++) {\n${product.text}\n}`);
      loop.line('workgroupBarrier();');
      emitter.line(`for (var k0 = 0u; k0 < ${depth}u; k0 += ${depthTile}u) {\n${loop.text}\n}`);
      for (let i = 0; i < perThread; i++) {
        for (let j = 0; j < perThread; j++) {
          const row = emitter.let(`${firstRow} + thread.y + ${i * threads}u`);
          const column = emitter.let(`${firstColumn} + thread.x + ${j * threads}u`);
          emitter.line(`if (${row} < ${rows}u && ${column} < ${columns}u) {`);
          const inner = emitter.inner();
          const linear = inner.let(`(group.z * ${rows}u + ${row}) * ${columns}u + ${column}`);
          inner.keep(root, { linear }, `sum${i * perThread + j}`);
          storeElements(scope, values, epilogue.length === 0 ? [root] : epilogue, linear, inner);
          emitter.line(`${inner.text}\n}`);
        }
      }
    },
  };
}
