import type { Vector } from '../operands.ts';
import { emitLoadOne } from './emit-memory.ts';
import type { Source } from './emit-operation.ts';
import { emitStraight, type Item } from './emit-straight.ts';
import type { LaneGraph } from './lane-graph.ts';
import type { LoopFrame, LoopRow } from './loop-frame.ts';

/** The nodes whose lanes differ. All other nodes have one value for a whole row. */
export function varyingNodes({ loop }: LoopFrame, graph: LaneGraph): ReadonlySet<number> {
  const varying = new Set<number>();
  for (const [id, node] of graph.nodes.entries()) {
    if (node.kind === 'operation' && node.inputs.some((input) => varying.has(input))) {
      varying.add(id);
    }
    if (node.kind !== 'input') continue;
    const input = loop.inputs[node.input];
    const access = input?.kind === 'operand' ? loop.operands[input.operand]?.access : undefined;
    const isVarying = access === 'element' || access === 'column' || input?.kind === 'index';
    if (isVarying) varying.add(id);
  }
  return varying;
}

/**
 * Writes the code that computes the values that are the same for a whole row, and returns where these values lie. They
 * are the uniform ones among `roots`, and those that varying nodes read.
 */
export function keepUniform(
  frame: LoopFrame,
  row: LoopRow,
  graph: LaneGraph,
  varying: ReadonlySet<number>,
  roots: readonly { readonly node: number }[],
): ReadonlyMap<number, Source> {
  const { code, slots } = frame;
  const known = knownValues(frame, row, graph);
  const read = new Set(roots.map(({ node }) => node));
  for (const id of varying) {
    const node = graph.node(id);
    if (node.kind === 'operation') node.inputs.forEach((input) => read.add(input));
  }
  const items: Item[] = [];
  const homes = new Map(known);
  const seen = new Set(known.keys());
  for (const id of read) {
    if (varying.has(id) || known.has(id)) continue;
    addItems(frame, row, graph, id, seen, items);
    const memory = slots.take();
    homes.set(id, { kind: 'memory', memory, broadcast: false });
    const use = (vector: Vector): void => code.vstore('vmovups', memory, vector);
    items.push({ kind: 'use', value: id, use });
  }
  emitStraight(frame, items, known, frame.vectors.registers);
  return homes;
}

/** The values that already lie in memory. */
function knownValues(
  { pool }: LoopFrame,
  { kept }: LoopRow,
  graph: LaneGraph,
): Map<number, Source> {
  const homes = new Map<number, Source>();
  for (const [id, node] of graph.nodes.entries()) {
    if (node.kind === 'constant') homes.set(id, pool.constant(node.bits));
    const memory = node.kind === 'input' ? kept.get(node.input) : undefined;
    if (memory !== undefined) homes.set(id, { kind: 'memory', memory, broadcast: false });
  }
  return homes;
}

/** Adds the items that compute a value, behind the items of the values that it reads. */
function addItems(
  frame: LoopFrame,
  row: LoopRow,
  graph: LaneGraph,
  id: number,
  seen: Set<number>,
  items: Item[],
): void {
  if (seen.has(id)) return;
  seen.add(id);
  const node = graph.node(id);
  if (node.kind === 'operation') {
    const { name, bits, when, inputs } = node;
    for (const input of inputs) addItems(frame, row, graph, input, seen, items);
    items.push({ kind: 'operation', value: id, name, bits, when, reads: inputs });
    return;
  }
  const input = node.kind === 'input' ? frame.loop.inputs[node.input] : undefined;
  if (input?.kind !== 'operand') throw new RangeError(`a loop reads value ${id} too early`);
  const { operand } = input;
  const load = (target: Vector): void => emitLoadOne(frame, operand, target, row);
  items.push({ kind: 'load', value: id, load });
}
