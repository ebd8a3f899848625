import { laneDType, type LoopLoad, type LoopSpec, type LoopStep } from '../lanes/loop-spec.ts';
import { type KernelGraph, type LoopNode, type Reference, columnsOf } from './kernel-graph.ts';

/** A fused loop: its structure, and what a call of its kernel passes. */
export interface FusedLoop {
  readonly spec: LoopSpec;
  readonly rows: number;
  readonly columns: number;
  /** The nodes whose memory is read, in the order of `spec.loads`. */
  readonly loads: readonly number[];
  /** The values that are written, in the order of `spec.stores`. */
  readonly stores: readonly number[];
}

/**
 * Fuses nodes, which must be in ascending order, to one loop. `storedValues` gives the values that a node must store.
 */
export function fuseLoop(
  graph: KernelGraph,
  nodes: readonly LoopNode[],
  storedValues: (node: number) => readonly number[],
): FusedLoop {
  const own = new Set(nodes.map(({ id }) => id));
  const operands = new Map<string, { node: number; load: LoopLoad }>();
  for (const { inputs } of nodes) {
    for (const reference of inputs) {
      const { kind, dtype } = graph.node(reference.node);
      if (kind === 'constant' || own.has(reference.node)) continue;
      const lane = laneDType(dtype);
      const load = {
        dtype: lane,
        access: reference.access.kind,
        elementOffset: offsetOf(reference),
      };
      operands.set(operandKey(reference), { node: reference.node, load });
    }
  }
  const slots = new Map([...operands.keys()].map((key, slot) => [key, slot]));
  const steps: LoopStep[] = [];
  const push = (key: string, step: LoopStep): number => {
    const slot = operands.size + steps.length;
    slots.set(key, slot);
    steps.push(step);
    return slot;
  };
  const slotOf = (reference: Reference): number => {
    const node = graph.node(reference.node);
    const key = node.kind === 'constant' ? `constant ${node.id}` : operandKey(reference);
    const slot = slots.get(key);
    if (slot !== undefined) return slot;
    if (node.kind !== 'constant') throw new RangeError(`A loop reads node ${node.id} too early.`);
    return push(key, { op: 'constant', dtype: laneDType(node.dtype), value: node.constant });
  };

  const stores: { slot: number; dtype: LoopNode['dtype']; value: number }[] = [];
  for (const node of nodes) {
    const { op, dtype, inputDType, approximate } = node;
    const inputs = node.inputs.map(slotOf);
    const step: LoopStep =
      op === 'copy'
        ? { op, dtype, inputs }
        : { op, dtype, inputs, inputDType, ...(approximate && { approximate }) };
    const slot = push(operandKey({ node: node.id, access: { kind: 'element' } }), step);
    for (const value of storedValues(node.id)) stores.push({ slot, dtype, value });
  }

  const [first] = nodes;
  const elements = first?.elements ?? 0;
  const ownColumns = nodes.map((node) => node.columns).find((columns) => columns !== undefined);
  const columns = ownColumns ?? elements;
  return {
    spec: {
      byRows: ownColumns !== undefined,
      loads: [...operands.values()].map(({ load }) => load),
      steps,
      stores: stores.map(({ slot, dtype }) => ({ slot, dtype })),
    },
    rows: columns === 0 ? 0 : elements / columns,
    columns,
    loads: [...operands.values()].map(({ node }) => node),
    stores: stores.map(({ value }) => value),
  };
}

function offsetOf({ access }: Reference): number {
  return access.kind === 'scalar' ? access.elementOffset : 0;
}

function operandKey(reference: Reference): string {
  const { node, access } = reference;
  return [node, access.kind, offsetOf(reference), columnsOf(access)].join(' ');
}
