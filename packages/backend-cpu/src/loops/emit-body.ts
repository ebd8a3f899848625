import type { Mask, Vector } from '../machine-code/operands.ts';
import { emitIndex, emitLoad, emitStore } from './emit-memory.ts';
import type { Source } from './emit-operation.ts';
import { emitStraight, type Item } from './emit-straight.ts';
import type { LaneGraph } from './lane-graph.ts';
import type { Fold } from '../wasm/rows/rows.ts';
import type { LoopFrame } from './loop-frame.ts';

/** What is done for each vector of a pass. */
export interface Body {
  readonly frame: LoopFrame;
  readonly graph: LaneGraph;
  readonly varying: ReadonlySet<number>;
  /** Where values lie that are the same for a whole row. */
  readonly homes: ReadonlyMap<number, Source>;
  readonly stores: readonly { readonly operand: number; readonly node: number }[];
  readonly folds: readonly { readonly fold: Fold; readonly node: number }[];
  /** Of each fold, the registers of its sums. */
  readonly sums: readonly (readonly Vector[])[];
}

/** Writes the body for so many vectors, or for what `mask` leaves of one. */
export function emitBody(body: Body, vectors: number, mask?: Mask): void {
  const { frame, homes, sums } = body;
  const items = Array.from({ length: vectors }, (_, vector) => itemsOf(body, vector, mask)).flat();
  const taken = sums.reduce((count, { length }) => count + length, 0);
  emitStraight(frame, items, homes, 32 - taken);
}

/** Stores come last, as they may go to the memory of what is loaded. */
function itemsOf(
  { frame, graph, varying, stores, folds, sums }: Body,
  vector: number,
  mask: Mask | undefined,
): readonly Item[] {
  const { loop } = frame;
  const columns = { vector, mask };
  const items: Item[] = [];
  const seen = new Set<number>();
  const valueOf = (id: number): number => (varying.has(id) ? id + vector * graph.nodes.length : id);
  const add = (id: number): void => {
    if (seen.has(id) || !varying.has(id)) return;
    seen.add(id);
    const node = graph.node(id);
    const value = valueOf(id);
    if (node.kind === 'operation') {
      node.inputs.forEach(add);
      const { name, bits, when, inputs } = node;
      items.push({ kind: 'operation', value, name, bits, when, reads: inputs.map(valueOf) });
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
    if (sum === undefined) throw new RangeError('a fold without a register for its sum');
    const use = (term: Vector): void => emitFold(frame, fold, sum, term, mask);
    items.push({ kind: 'use', value: valueOf(node), use });
  }
  for (const { node } of stores) add(node);
  for (const { operand, node } of stores) {
    const use = (value: Vector, spare: Vector): void =>
      emitStore(frame, operand, value, spare, columns);
    items.push({ kind: 'use', value: valueOf(node), use });
  }
  return items;
}

/** The maximum leaves NaN out, which the sums that follow do not. */
function emitFold(
  { code }: LoopFrame,
  fold: Fold,
  sum: Vector,
  term: Vector,
  mask: Mask | undefined,
): void {
  const options = mask && { mask };
  if (fold === 'sum') code.ternary('vaddps', sum, sum, term, options);
  else code.ternary('vmaxps', sum, term, sum, options);
}
