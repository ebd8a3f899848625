import { type KernelGraph, type KernelNode, type RowNode, widened } from './kernel-graph.ts';

/** Whether steps on the elements of its result can be a part of what is done to rows. */
export function hasEdges({ kernel, elements }: RowNode): boolean {
  const [rows = 0, columns = 0] = kernel.sizes;
  const makesRows = kernel.program !== undefined && kernel.gradient?.of !== 'weight';
  return makesRows && elements === rows * columns;
}

/** Whether `input` makes f32 rows of 16-bit ones, which a row's kernel could do as it reads them. */
export function isEdgeInput(graph: KernelGraph, row: KernelNode, input: number): boolean {
  if (row.kind !== 'row' || row.kernel.program === undefined) return false;
  return widened(graph.node(input)) !== undefined;
}

/** Whether a loop is one over the elements of a row's result, and reads nothing but elements, columns and constants. */
export function isEdgeLoop(graph: KernelGraph, { kernel, elements }: RowNode, id: number): boolean {
  const loop = graph.node(id);
  const [, columns] = kernel.sizes;
  if (loop.kind !== 'loop' || loop.op === 'random' || loop.elements !== elements) return false;
  if (loop.columns !== undefined && loop.columns !== columns) return false;
  return loop.inputs.every(
    ({ node, access }) =>
      graph.node(node).kind === 'constant' || access.kind === 'element' || access.kind === 'column',
  );
}
