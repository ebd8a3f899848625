import { dtypes } from '@shardwise/core/spec';
import { clusterLoops } from './clusters.ts';
import { elementwiseKernel } from '../emit/wasm/elementwise.ts';
import { inPlaceWrites } from './in-place.ts';
import { isComputed, KernelGraph, type KernelNode, type MoveNode } from './kernel-graph.ts';
import { fuseLoop } from './fused-loop.ts';
import { keptRows, rowCall } from './row-call.ts';
import type { KernelProgram } from './kernel-program.ts';
import { rowCopyOf, rowCopyKernel, rowCopyKey } from '../emit/wasm/move/row-copy.ts';
import { slicedView, wholeView } from '../program/view.ts';
import { type KernelCall, structureKey } from './kernel-call.ts';

/** A value that is computed aside and copied to its target at the end of the partition. */
interface CopiedValue {
  readonly value: number;
  readonly target: number;
  readonly byteLength: number;
}

/**
 * The kernels of a partition of a program, in order. They are plain data, except for the functions that build their code.
 */
export interface KernelPlan {
  readonly calls: readonly KernelCall[];
  readonly copies: readonly CopiedValue[];
  /** Maps a value to the input whose memory its kernel writes. */
  readonly direct: ReadonlyMap<number, number>;
  /** Values that need memory of their own during a run. */
  readonly storage: readonly number[];
  /** The values in `storage` of which only one row is kept at a time, and the byte lengths of a row. */
  readonly keptRows: ReadonlyMap<number, number>;
  readonly inputCount: number;
}

/**
 * Compiles elementwise instructions to fused loops, which read and write every operand once, and row reductions to
 * kernels of their own.
 */
export function planKernels(program: KernelProgram): KernelPlan {
  const graph = new KernelGraph(program);
  const live = liveNodes(graph);
  const inPlace = inPlaceWrites(program, graph, live);
  const groups = clusterLoops(graph, live, inPlace.order);
  const stores = storedValues(graph, groups);
  const kept = new Map(groups.flatMap((group) => keptRows(group, graph, stores)));
  return {
    calls: groups.flatMap((group) => compileGroup(group, graph, stores)),
    copies: [...inPlace.copied].map(([value, target]) => ({
      value,
      target,
      byteLength: storedBytes(graph, value),
    })),
    direct: inPlace.direct,
    storage: [
      ...[...stores.values()].flat().filter((value) => !inPlace.direct.has(value)),
      ...kept.keys(),
    ],
    keptRows: kept,
    inputCount: program.inputCount,
  };
}

/** The nodes that stored values depend on. */
function liveNodes(graph: KernelGraph): Set<number> {
  const live = new Set(graph.stores.values());
  for (const id of live) for (const { node } of graph.node(id).inputs) live.add(node);
  return new Set([...live].sort((a, b) => a - b));
}

/** The values to store, by node. They are outputs, and values that are read outside the node's own loop. */
function storedValues(
  graph: KernelGraph,
  groups: readonly (readonly number[])[],
): Map<number, number[]> {
  const stores = new Map<number, number[]>();
  for (const [value, node] of graph.stores) stores.set(node, [...(stores.get(node) ?? []), value]);
  for (const group of groups) {
    const own = new Set(group);
    for (const { node: id } of group.flatMap((member) => graph.node(member).inputs)) {
      const node = graph.node(id);
      if (isComputed(node) && !own.has(id) && !stores.has(id)) stores.set(id, [node.value]);
    }
  }
  return stores;
}

function compileGroup(
  group: readonly number[],
  graph: KernelGraph,
  stores: ReadonlyMap<number, readonly number[]>,
): KernelCall[] {
  const addressOf = (id: number): number => stores.get(id)?.[0] ?? graph.node(id).value;
  const nodes = group.map((id) => graph.node(id));
  if (nodes.some(({ kind }) => kind === 'row')) return [rowCall(group, graph, stores, addressOf)];
  const [first] = nodes;
  if (first?.kind === 'move') return copyParts(first, addressOf);
  const loop = fuseLoop(graph, nodes.filter(isLoop), (id) => stores.get(id) ?? []);
  if (loop.rows === 0) return [];
  const call = {
    key: structureKey(loop.spec),
    build: () => elementwiseKernel(loop.spec),
    loop: { kind: 'elements', spec: loop.spec } as const,
    reads: loop.spec.loads.map(({ access }) => access),
    sizes: [loop.rows, loop.columns],
    values: [...loop.loads.map(addressOf), ...loop.stores],
  };
  return [call];
}

function copyParts(
  { id, inputs, dtype, shape, parts }: MoveNode,
  addressOf: (node: number) => number,
): KernelCall[] {
  const whole = wholeView(shape);
  return parts.flatMap(({ source, starts }, index) => {
    const input = inputs[index];
    if (!input) return [];
    const sizes = source.dims.map(({ size }) => size);
    const copy = rowCopyOf(source, slicedView(whole, starts, sizes), dtypes[dtype].bytes);
    const { loops } = copy;
    return {
      key: rowCopyKey(loops),
      build: () => rowCopyKernel(loops),
      routine: { kind: 'row copy', loops } as const,
      sizes: copy.sizes,
      values: [addressOf(input.node), addressOf(id)],
      byteOffsets: [copy.sourceBytes, copy.targetBytes],
    };
  });
}

function isLoop(node: KernelNode): node is Extract<KernelNode, { kind: 'loop' }> {
  return node.kind === 'loop';
}

function storedBytes(graph: KernelGraph, value: number): number {
  const id = graph.stores.get(value);
  if (id === undefined) return 0;
  const { elements, dtype } = graph.node(id);
  return elements * dtypes[dtype].bytes;
}
