import { dtypes } from '@shardwise/core/spec';
import type { FunctionBuilder } from '@shardwise/wasm-assembler';
import { elementwiseLoop } from '../loops/elementwise-loop.ts';
import type { LaneLoop } from '../loops/lane-loop.ts';
import { clusterLoops } from './fuse/clusters.ts';
import { elementwiseKernel } from './elementwise.ts';
import { inPlaceWrites } from './fuse/in-place.ts';
import { normGradients, normGradientsKernel } from './fuse/norm-gradients.ts';
import { isComputed, KernelGraph, type KernelNode, type MoveNode } from './fuse/kernel-graph.ts';
import { fuseLoop } from './fuse/fused-loop.ts';
import type { KernelProgram } from './kernel-program.ts';
import { rowCopyOf, rowCopyKernel } from './move/row-copy.ts';
import { slicedView, wholeView } from './move/view.ts';
import type { LoopSpec } from './loop-spec.ts';

/** One kernel, and the values whose addresses it takes. */
export interface KernelCall {
  /** Kernels of one key are the same code, which `build` makes. */
  readonly key: string;
  readonly build: () => FunctionBuilder;
  /** The same as a loop that machine code runs, where it is one. Sizes are rows and columns then. */
  readonly lanes?: () => LaneLoop;
  readonly sizes: readonly number[];
  readonly values: readonly number[];
  /** Where in each value the kernel starts; at its first byte where this is not given. */
  readonly byteOffsets?: readonly number[];
  /** The indices of a kernel that returns the place of one that is out of range. */
  readonly indices?: IndexUse;
}

interface IndexUse {
  readonly op: string;
  readonly size: number;
  /** The value of the indices, and that of the instruction that reads them. */
  readonly value: number;
  readonly reader: number;
}

/** A value that is computed aside and copied to its target at the end. */
interface CopiedValue {
  readonly value: number;
  readonly target: number;
  readonly byteLength: number;
}

/** The kernels of a piece of a program, in order: plain data, but for what builds their code. */
export interface KernelPlan {
  readonly calls: readonly KernelCall[];
  readonly copies: readonly CopiedValue[];
  /** Value -> the input whose memory its kernel writes. */
  readonly direct: ReadonlyMap<number, number>;
  /** Values that need memory of their own during a run. */
  readonly storage: readonly number[];
  readonly inputCount: number;
}

/**
 * Compiles elementwise instructions to fused loops, each reading and writing every operand once,
 * and row reductions to kernels of their own.
 */
export function planKernels(program: KernelProgram): KernelPlan {
  const graph = new KernelGraph(program);
  const live = liveNodes(graph);
  const inPlace = inPlaceWrites(program, graph, live);
  const groups = clusterLoops(graph, live, inPlace.order);
  const stores = storedValues(graph, groups);
  return {
    calls: groups.flatMap((group) => compileGroup(group, graph, stores)),
    copies: [...inPlace.copied].map(([value, target]) => ({
      value,
      target,
      byteLength: storedBytes(graph, value),
    })),
    direct: inPlace.direct,
    storage: [...stores.values()].flat().filter((value) => !inPlace.direct.has(value)),
    inputCount: program.inputCount,
  };
}

/** What stored values depend on. */
function liveNodes(graph: KernelGraph): Set<number> {
  const live = new Set(graph.stores.values());
  for (const id of live) for (const { node } of graph.node(id).inputs) live.add(node);
  return new Set([...live].sort((a, b) => a - b));
}

/** Values to store by node: outputs, and what is read outside the node's own loop. */
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
  const [first] = nodes;
  if (first?.kind === 'row') {
    const [gradients] = group.length > 1 ? normGradients(graph, group) : [];
    const { kernel, inputs, outputs } = gradients
      ? {
          kernel: normGradientsKernel(gradients),
          inputs: gradients.input.inputs,
          outputs: [gradients.input, gradients.weight, gradients.bias],
        }
      : { kernel: first.kernel, inputs: first.inputs, outputs: [first] };
    const read = inputs.map(({ node }) => addressOf(node));
    const call = {
      key: kernel.key,
      build: () => kernel.build(),
      ...(kernel.lanes && { lanes: kernel.lanes }),
      sizes: kernel.sizes,
      values: [...read, ...outputs.flatMap((node) => (node ? addressOf(node.id) : []))],
    };
    const { indices } = kernel;
    if (indices === undefined) return [call];
    const { op, size, input } = indices;
    return [{ ...call, indices: { op, size, value: read[input] ?? -1, reader: first.value } }];
  }
  if (first?.kind === 'move') return copyParts(first, addressOf);
  const loop = fuseLoop(graph, nodes.filter(isLoop), (id) => stores.get(id) ?? []);
  if (loop.rows === 0) return [];
  const call = {
    key: structureKey(loop.spec),
    build: () => elementwiseKernel(loop.spec),
    lanes: () => elementwiseLoop(loop.spec),
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
      key: `copy rows ${loops}`,
      build: () => rowCopyKernel(loops),
      sizes: copy.sizes,
      values: [addressOf(input.node), addressOf(id)],
      byteOffsets: [copy.sourceBytes, copy.targetBytes],
    };
  });
}

/** JSON, which by itself has one word for NaN and the infinities, and none for -0. */
function structureKey(spec: LoopSpec): string {
  return JSON.stringify(spec, (_, value: unknown) => {
    if (typeof value !== 'number') return value;
    return Object.is(value, -0) ? '-0' : String(value);
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
