import type { KernelProgram } from './kernel-program.ts';
import type { Edge } from './clusters.ts';
import type { KernelGraph, KernelNode } from './kernel-graph.ts';

export interface InPlaceWrites {
  /** Maps a value to the value whose memory its loop writes. */
  readonly direct: ReadonlyMap<number, number>;
  /** Maps a value to the value whose memory it is copied to after all loops have run. */
  readonly copied: ReadonlyMap<number, number>;
  /** Edges from the readers of old values to the writers of new ones, which must run later. */
  readonly order: readonly Edge[];
}

/** Decides which values are written directly over their targets, and what must run before that. */
export function inPlaceWrites(
  program: KernelProgram,
  graph: KernelGraph,
  live: ReadonlySet<number>,
): InPlaceWrites {
  const direct = new Map<number, number>();
  const copied = new Map<number, number>();
  const order: Edge[] = [];
  const successors = new Map<number, number[]>();
  const connect = (from: number, to: number): void => {
    successors.set(from, [...(successors.get(from) ?? []), to]);
  };
  for (const id of live) for (const { node } of graph.node(id).inputs) connect(node, id);

  for (const [value, target] of program.inPlace) {
    const writer = graph.stores.get(value);
    if (writer === undefined) continue;
    const readers = readersOf(graph, live, graph.inputNode(target));
    // Row kernels write before they have read everything, but a scatter only writes some elements of its first input.
    const isScatter = scattersInto(graph.node(writer), graph.inputNode(target));
    const isSafe =
      (isScatter || graph.node(writer).kind === 'loop') &&
      readers.every(({ node, isElementwise }) =>
        node === writer ? isScatter || isElementwise : !reaches(successors, writer, node),
      );
    if (!isSafe) {
      copied.set(value, target);
      continue;
    }
    direct.set(value, target);
    for (const { node, isElementwise } of readers) {
      if (node === writer) continue;
      order.push({ from: node, to: writer, isElementwise });
      connect(node, writer);
    }
  }
  return { direct, copied, order };
}

/** Whether a node writes elements into an input of the program, and reads nothing else of it. */
function scattersInto(node: KernelNode, input: number | undefined): boolean {
  if (node.kind !== 'row' || node.kernel.indices?.op !== 'scatter') return false;
  const [into, ...others] = node.inputs;
  return into?.node === input && others.every((other) => other.node !== input);
}

function readersOf(
  graph: KernelGraph,
  live: ReadonlySet<number>,
  input: number | undefined,
): { node: number; isElementwise: boolean }[] {
  if (input === undefined) return [];
  return [...live].flatMap((id) => {
    const node = graph.node(id);
    const accesses = node.inputs.filter((reference) => reference.node === input);
    if (accesses.length === 0) return [];
    const isElementwise =
      node.kind === 'loop' && accesses.every(({ access }) => access.kind === 'element');
    return [{ node: id, isElementwise }];
  });
}

function reaches(
  successors: ReadonlyMap<number, readonly number[]>,
  from: number,
  to: number,
): boolean {
  const seen = new Set([from]);
  for (const node of seen) {
    if (node === to) return true;
    for (const next of successors.get(node) ?? []) seen.add(next);
  }
  return false;
}
