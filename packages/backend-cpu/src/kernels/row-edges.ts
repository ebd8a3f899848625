import { type KernelGraph, type KernelNode, type RowNode, widened } from './kernel-graph.ts';

/** Whether a row kernel can also run steps on the elements of its result. */
export function hasEdges({ kernel, elements }: RowNode): boolean {
  const [rows = 0, columns = 0] = kernel.sizes;
  const makesRows = kernel.program !== undefined && kernel.gradient?.of !== 'weight';
  return makesRows && elements === rows * columns;
}

/** Whether `input` converts 16-bit rows to f32, which a row kernel could do as it reads them. */
export function isEdgeInput(graph: KernelGraph, row: KernelNode, input: number): boolean {
  if (row.kind !== 'row' || row.kernel.program === undefined) return false;
  return widened(graph.node(input)) !== undefined;
}

/** Whether a loop is over the elements of a row's result, and only reads elements, columns and constants. */
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
