import { dtypes } from '@shardwise/core/spec';
import type { LaneDType, LoopSpec } from '../lanes/loop-spec.ts';
import { withEdges } from '../emit/wasm/rows/row-edges.ts';
import { byRows, type RowKernel } from '../emit/wasm/rows/row-kernel.ts';
import { fuseLoop } from './fused-loop.ts';
import { type KernelGraph, type LoopNode, type RowNode, widened } from './kernel-graph.ts';
import { normGradients, normGradientsKernel } from './norm-gradients.ts';
import { type KernelCall, structureKey } from './kernel-call.ts';

/** A kernel over rows, its inputs, and the nodes that it computes. `result` is the result of its rows. */
interface RowWork {
  readonly kernel: RowKernel;
  readonly inputs: readonly number[];
  readonly result: RowNode;
  readonly others: readonly RowNode[];
}

/**
 * Returns the call of a group that has a kernel over rows. `addressOf` returns the value whose memory holds a node's
 * result.
 */
export function rowCall(
  group: readonly number[],
  graph: KernelGraph,
  stores: ReadonlyMap<number, readonly number[]>,
  addressOf: (node: number) => number,
): KernelCall {
  const work = rowWork(group, graph);
  const { kernel, inputs, result, others } = work;
  const loops = group.map((id) => graph.node(id)).filter((node) => node.kind === 'loop');
  if (kernel.program !== undefined && loops.length > 0) {
    return callWithEdges(work, loops, graph, stores, addressOf);
  }
  const read = inputs.map(addressOf);
  const { key, build, program, routine, sizes, indices } = kernel;
  const call: KernelCall = {
    key,
    build,
    ...(program && { loop: { kind: 'rows', program } }),
    ...(routine && { routine }),
    sizes,
    values: [...read, ...[result, ...others].map(({ id }) => addressOf(id))],
  };
  if (indices === undefined) return call;
  const { op, size, input } = indices;
  return { ...call, indices: { op, size, value: read[input] ?? -1, reader: result.value } };
}

/** The values whose memory a group uses to keep one row, because their result is not stored, and the bytes of a row. */
export function keptRows(
  group: readonly number[],
  graph: KernelGraph,
  stores: ReadonlyMap<number, readonly number[]>,
): readonly (readonly [value: number, byteLength: number])[] {
  return group.flatMap((id) => {
    const node = graph.node(id);
    if (node.kind !== 'row' || node.kernel.program?.keeps !== true || stores.has(id)) return [];
    const [, columns = 0] = node.kernel.sizes;
    return [[node.value, columns * dtypes[node.dtype].bytes] as const];
  });
}

function rowWork(group: readonly number[], graph: KernelGraph): RowWork {
  const rows = group.map((id) => graph.node(id)).filter((node) => node.kind === 'row');
  const [first] = rows;
  if (first === undefined) throw new RangeError('a group without a kernel over rows');
  const [gradients] = rows.length > 1 ? normGradients(graph, group) : [];
  const result = gradients?.input ?? first;
  const inputs = result.inputs.map(({ node }) => node);
  if (gradients === undefined) return { kernel: first.kernel, inputs, result, others: [] };
  const others = [gradients.weight, gradients.bias].filter((node) => node !== undefined);
  return { kernel: normGradientsKernel(gradients), inputs, result, others };
}

const nothing: LoopSpec = { byRows: false, loads: [], steps: [], stores: [] };

function callWithEdges(
  { kernel, inputs, result, others }: RowWork,
  loops: readonly LoopNode[],
  graph: KernelGraph,
  stores: ReadonlyMap<number, readonly number[]>,
  addressOf: (node: number) => number,
): KernelCall {
  const { program, sizes } = kernel;
  if (program === undefined) throw new RangeError('a kernel over rows that takes no other steps');
  const own = new Set(loops.map(({ id }) => id));
  const sources = inputs.map((id) => {
    const node = graph.node(id);
    const source = own.has(id) ? widened(node) : undefined;
    const dtype: LaneDType = source !== undefined && node.kind === 'loop' ? node.inputDType : 'f32';
    return { id: source?.node ?? id, dtype };
  });
  const readBehind = new Set(
    loops.flatMap((loop) => (inputs.includes(loop.id) ? [] : loop.inputs.map(({ node }) => node))),
  );
  // A loop that widens rows as they are read is repeated behind the result, if steps there read its values too.
  const after = loops.filter(({ id }) => !inputs.includes(id) || readBehind.has(id));
  const fused = fuseLoop(graph, after, (id) => stores.get(id) ?? []);
  const loop = after.length === 0 ? nothing : fused.spec;
  const stored = stores.has(result.id) ? 'whole' : program.keeps === true ? 'row' : 'none';
  const edges = {
    dtypes: program.operands.map((dtype, index) => sources[index]?.dtype ?? dtype),
    result: inputs.length,
    stored,
    loop,
    load: fused.loads.indexOf(result.id),
  } as const;
  const whole = withEdges(program, edges);
  const loads = fused.loads.filter((id) => id !== result.id);
  const results = stored === 'none' ? others : [result, ...others];
  return {
    key: structureKey([kernel.key, edges]),
    build: byRows(whole).build,
    loop: { kind: 'rows', program: whole },
    sizes,
    values: [
      ...sources.map(({ id }) => addressOf(id)),
      ...results.map(({ id }) => addressOf(id)),
      ...loads.map(addressOf),
      ...fused.stores,
    ],
  };
}
