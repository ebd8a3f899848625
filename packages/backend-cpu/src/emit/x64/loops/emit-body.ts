import type { Memory, Vector } from '../operands.ts';
import { emitIndex, emitLoad, emitRoundedStore, emitStore } from './emit-memory.ts';
import type { Source } from './emit-operation.ts';
import { emitStraight, type Item } from './emit-straight.ts';
import type { LaneGraph } from './lane-graph.ts';
import type { Fold } from '../../../lanes/rows.ts';
import type { LoopFrame, LoopRow } from './loop-frame.ts';
import type { Left, Spares } from './loop-vectors.ts';
import type { Options } from '../vector-instructions.ts';

/** A row in a pass. */
export interface RowInPass {
  readonly row: LoopRow;
  /** Where the values lie that are the same for the whole row, by node. */
  readonly homes: ReadonlyMap<number, Source>;
  /** For each fold, the places of its sums. Either all of them are registers, or none is. */
  readonly sums: readonly (readonly (Vector | Memory)[])[];
}

/** What a pass does for each vector. */
export interface Body {
  readonly frame: LoopFrame;
  readonly graph: LaneGraph;
  readonly varying: ReadonlySet<number>;
  readonly rows: readonly RowInPass[];
  readonly stores: readonly { readonly operand: number; readonly node: number }[];
  readonly folds: readonly { readonly fold: Fold; readonly node: number }[];
}

/** Writes the body for this many vectors. At the end of a row, `left` says which elements each vector still has. */
export function emitBody(body: Body, vectors: number, left: readonly Left[] = []): void {
  const { frame, rows } = body;
  const items = Array.from({ length: vectors }, (_, vector) =>
    rows.map((row) => itemsOf(body, row, vector, left[vector])),
  ).flat(2);
  const homes = new Map(
    rows.flatMap(({ row, homes: ofRow }) =>
      [...ofRow].map(([id, home]) => [valueOf(body, row, id), home] as const),
    ),
  );
  const sums = rows.flatMap((row) => row.sums).flat();
  const taken = sums.filter(({ kind }) => kind === 'vector').length;
  emitStraight(frame, items, homes, frame.vectors.registers - taken);
}

/** The number of a node's value in a row. Only constants are the same in all rows. */
function valueOf({ graph, varying }: Body, row: LoopRow, id: number, vector = 0): number {
  if (graph.node(id).kind === 'constant') return id;
  const copy = varying.has(id) ? 2 * vector + row.number : row.number;
  return id + copy * graph.nodes.length;
}

/** The items of one vector of a row. Stores come last, because they may overwrite memory that is loaded. */
function itemsOf(
  body: Body,
  { row, sums }: RowInPass,
  vector: number,
  left: Left | undefined,
): readonly Item[] {
  const { frame, graph, varying, stores, folds } = body;
  const { loop } = frame;
  const columns = { row, vector, left };
  const items: Item[] = [];
  const seen = new Set<number>();
  const copyOf = (id: number): number => valueOf(body, row, id, vector);
  const add = (id: number): void => {
    if (seen.has(id) || !varying.has(id)) return;
    seen.add(id);
    const node = graph.node(id);
    const value = copyOf(id);
    if (node.kind === 'operation') {
      node.inputs.forEach(add);
      const { name, bits, when, inputs } = node;
      items.push({ kind: 'operation', value, name, bits, when, reads: inputs.map(copyOf) });
      return;
    }
    const input = node.kind === 'input' ? loop.inputs[node.input] : undefined;
    const load = (target: Vector): void => {
      if (input?.kind === 'operand') emitLoad(frame, input.operand, target, columns);
      else emitIndex(frame, target, columns);
    };
    items.push({ kind: 'load', value, load });
  };
  for (const [index, { fold, node }] of folds.entries()) {
    add(node);
    const sum = sums[index]?.[vector];
    if (sum === undefined) throw new RangeError('a fold without a place for its sum');
    const use = (term: Vector, spares: Spares): void =>
      emitFold(frame, fold, sum, term, spares, left);
    items.push({ kind: 'use', value: copyOf(node), use });
  }
  const ofStores = stores.map((store) => {
    const rounded = roundedByStore(body, store);
    return { ...store, node: rounded ?? store.node, rounds: rounded !== undefined };
  });
  for (const { node } of ofStores) add(node);
  for (const { operand, node, rounds } of ofStores) {
    const emit = rounds ? emitRoundedStore : emitStore;
    const use = (value: Vector, spares: Spares): void =>
      emit(frame, operand, value, spares, columns);
    items.push({ kind: 'use', value: copyOf(node), use });
  }
  return items;
}

/**
 * Returns the node that a store can round to bf16 itself, because nothing else reads the rounded value, and the
 * processor rounds to packed values, as they are stored.
 */
function roundedByStore(
  { frame, graph, varying, stores, folds }: Body,
  { operand, node }: Body['stores'][number],
): number | undefined {
  const value = graph.node(node);
  if (value.kind !== 'operation' || value.name !== 'toBfloat16') return undefined;
  if (!varying.has(node) || !frame.vectors.roundsToBfloat16) return undefined;
  if (frame.loop.operands[operand]?.dtype !== 'bf16') return undefined;
  const reads = [
    ...graph.nodes.flatMap((each) => (each.kind === 'operation' ? each.inputs : [])),
    ...[...stores, ...folds].map((use) => use.node),
  ];
  const isOnlyUse = reads.filter((read) => read === node).length === 1;
  return isOnlyUse ? value.inputs[0] : undefined;
}

/** Combines a term with a fold's sum. The maximum ignores NaN, but the sums of the passes that follow do not. */
function emitFold(
  { code }: LoopFrame,
  fold: Fold,
  sum: Vector | Memory,
  term: Vector,
  [combined, lanes]: Spares,
  left: Left | undefined,
): void {
  const combine = (target: Vector, options?: Options): void => {
    code.ternary(fold === 'sum' ? 'vaddps' : 'vmaxps', target, term, sum, options);
  };
  if (sum.kind === 'memory') {
    combine(combined);
    if (left?.kind === 'left') {
      code.binary('vmovups', lanes, left.lanes);
      code.maskedStore('vmaskmovps', sum, lanes, combined);
    } else code.vstore('vmovups', sum, combined);
  } else if (left?.kind === 'left') {
    combine(combined);
    code.binary('vmovups', lanes, left.lanes);
    code.ternaryWith('vblendvps', sum, sum, combined, 16 * lanes.index);
  } else combine(sum, left && { mask: left });
}
