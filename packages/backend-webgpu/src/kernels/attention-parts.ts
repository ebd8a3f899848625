import {
  attentionDims,
  type AttentionDims,
  attentionLimits,
  type AttentionOp,
} from '@shardwise/core/base';
import { type AttentionParams, type Instruction, type Shape } from '@shardwise/core/spec';
import type { Emitter } from '../emit/emitter.ts';
import type { KernelScope } from '../emit/kernel.ts';
import { inputAt, type Values } from '../program/values.ts';

export type AttentionInstruction = Extract<Instruction, { op: AttentionOp }>;

/** The number of queries, or of keys, of a group. Each thread has one. */
export const THREADS = 64;

/**
 * The smallest number, which stands for no score yet. An infinity would not do, because WGSL compilers may assume that
 * there are none.
 */
export const lowest = '-3.4028234e38f';

/** The names of vectors of four features each. What comes after the last feature is 0. */
export type Features = readonly string[];

export interface AttentionShape extends AttentionDims, Pick<AttentionParams, 'causal' | 'scale'> {
  readonly mask: Limit | null;
  readonly ranges: Limit | null;
}

/** A value that says which keys queries see, and its sizes. */
interface Limit {
  readonly id: number;
  readonly sizes: readonly number[];
}

export function shapeOf(values: Values, instruction: AttentionInstruction): AttentionShape {
  const shapeAt = (index: number): Shape => values.shape(inputAt(instruction, index));
  const v = instruction.op === 'attentionLogSumExp' ? undefined : shapeAt(2);
  const { mask, ranges } = attentionLimits(instruction.op, instruction.params, instruction.inputs);
  const limit = (id: number | undefined): Limit | null =>
    id === undefined ? null : { id, sizes: values.shape(id) };
  const { causal, scale } = instruction.params;
  return {
    ...attentionDims(shapeAt(0), shapeAt(1), v),
    causal,
    scale,
    mask: limit(mask),
    ranges: limit(ranges),
  };
}

/** Loads one row of a matrix into registers. */
export function loadFeatures(
  emitter: Emitter,
  id: number,
  at: readonly string[],
  width: number,
): Features {
  return Array.from({ length: Math.ceil(width / 4) }, (_, part) =>
    emitter.let(vectorOf(emitter, id, at, 4 * part, width)),
  );
}

function vectorOf(
  emitter: Emitter,
  id: number,
  at: readonly string[],
  first: number,
  width: number,
): string {
  const elements = [0, 1, 2, 3].map((i) =>
    first + i < width ? emitter.value(id, { dims: [...at, `${first + i}u`] }) : '0f',
  );
  return `vec4<f32>(${elements.join(', ')})`;
}

export function zeros(emitter: Emitter, width: number): Features {
  return Array.from({ length: Math.ceil(width / 4) }, () => {
    const name = emitter.fresh();
    emitter.line(`var ${name} = vec4<f32>(0);`);
    return name;
  });
}

/** Emits sums += factor * features. */
export function accumulate(
  emitter: Emitter,
  sums: Features,
  factor: string,
  features: Features,
): void {
  sums.forEach((sum, i) => emitter.line(`${sum} += ${factor} * ${features[i] ?? 'vec4<f32>(0)'};`));
}

/** Rows of a value that a group keeps in workgroup memory. */
export interface RowTile {
  readonly name: 'first_tile' | 'second_tile';
  readonly id: number;
  readonly width: number;
}

interface Walk {
  /** The first row, and one more than the last row. */
  readonly from: string;
  readonly to: string;
  /** How many rows the value has. */
  readonly rows: number;
  /** How many rows are in workgroup memory at once. */
  readonly tile: number;
}

/** Visits the rows of one head, one after the other. `write` is given the number of a row and its features. */
export function forEachRow(
  emitter: Emitter,
  tiles: readonly RowTile[],
  head: readonly string[],
  { from, to, rows, tile }: Walk,
  write: (inner: Emitter, row: string, features: readonly Features[]) => void,
): void {
  const [start, at] = [emitter.fresh(), emitter.fresh()];
  const loop = emitter.inner();
  loop.line('workgroupBarrier();');
  for (const { name, id, width } of tiles) {
    const vectors = Math.ceil(width / 4);
    if (vectors === 0) continue;
    const slot = loop.fresh();
    const fill = loop.inner();
    const row = fill.let(`min(${start} + ${slot} / ${vectors}u, ${Math.max(rows - 1, 0)}u)`);
    const column = fill.let(`${slot} % ${vectors}u * 4u`);
    const elements = [0, 1, 2, 3].map((i) => {
      const own = fill.let(`min(${column} + ${i}u, ${width - 1}u)`);
      const element = fill.value(id, { dims: [...head, row, own] });
      return width % 4 === 0 ? element : `select(0f, ${element}, ${column} + ${i}u < ${width}u)`;
    });
    fill.line(`${name}[${slot}] = vec4<f32>(${elements.join(', ')});`);
    loop.line(
      `for (var ${slot} = thread.x; ${slot} < ${tile * vectors}u; ${slot} += ${THREADS}u) {\n${fill.text}\n}`,
    );
  }
  loop.line('workgroupBarrier();');
  const inner = loop.inner();
  const row = inner.let(`${start} + ${at}`);
  const features = tiles.map(({ name, width }) => {
    const vectors = Math.ceil(width / 4);
    return Array.from({ length: vectors }, (_, i) =>
      inner.let(`${name}[${at} * ${vectors}u + ${i}u]`),
    );
  });
  write(inner, row, features);
  const last = loop.let(`min(${tile}u, ${rows}u - min(${start}, ${rows}u))`);
  loop.line(`for (var ${at} = 0u; ${at} < ${last}; ${at}++) {\n${inner.text}\n}`);
  emitter.line(
    `for (var ${start} = ${from}; ${start} < ${to}; ${start} += ${tile}u) {\n${loop.text}\n}`,
  );
}

interface ScorePair {
  readonly shape: AttentionShape;
  /** The item of the batch and the head of the query. */
  readonly own: readonly [string, string];
  readonly query: string;
  readonly key: string;
  readonly q: Features;
  readonly k: Features;
}

/** The score of a query and a key, and whether the query sees the key. Both are expressions. */
export function scoreOf(
  emitter: Emitter,
  { shape, own, query, key, q, k }: ScorePair,
): { readonly value: string; readonly isSeen: string } {
  const { mask, ranges, causal } = shape;
  const product = q.map((part, i) => `dot(${part}, ${k[i] ?? 'vec4<f32>(0)'})`).join(' + ');
  const score = emitter.let(`(${product}) * ${Math.fround(shape.scale)}f`);
  const conditions = causal ? [`${key} <= ${query}`] : [];
  if (ranges !== null) conditions.push(isInRange(emitter, ranges, own[0], query, key));
  if (mask === null) return { value: score, isSeen: conditions.join(' && ') || 'true' };
  const place = [...own, query, key].map((at, dim) => (mask.sizes[dim] === 1 ? '0u' : at));
  const added = emitter.value(mask.id, { dims: place });
  return {
    value: emitter.let(`${score} + ${added}`),
    isSeen: [...conditions, `bitcast<u32>(${added}) != 0xff800000u`].join(' && '),
  };
}

function isInRange(
  emitter: Emitter,
  { id, sizes }: Limit,
  item: string,
  query: string,
  key: string,
): string {
  const [first, end] = ['0u', '1u'].map((bound) =>
    emitter.value(id, { dims: [sizes[0] === 1 ? '0u' : item, query, bound] }),
  );
  return `i32(${key}) >= ${first} && i32(${key}) < ${end}`;
}

interface StoredRow {
  /** The number of the row. */
  readonly linear: string;
  readonly features: Features;
  readonly factor: string;
  readonly width: number;
}

export function storeFeatures(
  { place }: KernelScope,
  emitter: Emitter,
  root: number,
  { linear, features, factor, width }: StoredRow,
): void {
  const { write } = place(root);
  const at = emitter.let(`${linear} * ${width}u`);
  for (let feature = 0; feature < width; feature++) {
    const element = `${features[feature >> 2] ?? ''}.${'xyzw'[feature & 3] ?? ''}`;
    emitter.line(write(`${at} + ${feature}u`, `bitcast<u32>(${element} * ${factor})`));
  }
}

export function storeNumber(
  { place }: KernelScope,
  emitter: Emitter,
  root: number,
  linear: string,
  value: string,
): void {
  emitter.line(place(root).write(linear, `bitcast<u32>(${value})`));
}
