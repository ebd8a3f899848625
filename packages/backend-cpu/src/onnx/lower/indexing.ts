import { inputAt, type StepMap } from '../../compile/step.ts';
import type { GraphBuilder } from '../graph-builder.ts';
import type { Operand } from '../operand.ts';
import { exactOf, type Lowerings } from './lowering.ts';

const add = { string: 'add' };

/** ScatterND adds whole rows of dim 0, many times faster than ScatterElements adds elements. */
function addRows(graph: GraphBuilder, step: StepMap['indexAdd']): Operand {
  const { dim } = step.params;
  const [rows = 0] = graph.type(inputAt(step, 1)).shape;
  // Swapping dim with the first is its own inverse.
  const order = [...step.shape.keys()].with(0, dim).with(dim, 0);
  const toFront = (name: string): string =>
    dim === 0 ? name : graph.emit('Transpose', [name], { perm: { ints: order } });
  const wide = graph.cast(exactOf(graph, step, 1), 'i64');
  const index = graph.emit('Reshape', [wide, graph.int64s([rows, 1])]);
  const operands = [toFront(exactOf(graph, step, 0)), index, toFront(exactOf(graph, step, 2))];
  return {
    name: toFront(graph.emit('ScatterND', operands, { reduction: add })),
    shape: step.shape,
  };
}

export const indexing: Lowerings<'gather' | 'scatterAdd' | 'indexSelect' | 'indexAdd'> = {
  gather: (graph, step) => {
    const operands = [exactOf(graph, step, 0), exactOf(graph, step, 1)];
    const name = graph.emit('GatherElements', operands, { axis: { int: step.params.dim } });
    return { name, shape: step.shape };
  },
  scatterAdd: (graph, step) => {
    const operands = [0, 1, 2].map((index) => exactOf(graph, step, index));
    const attributes = { axis: { int: step.params.dim }, reduction: add };
    return { name: graph.emit('ScatterElements', operands, attributes), shape: step.shape };
  },
  indexSelect: (graph, step) => {
    const operands = [exactOf(graph, step, 0), exactOf(graph, step, 1)];
    const name = graph.emit('Gather', operands, { axis: { int: step.params.dim } });
    return { name, shape: step.shape };
  },
  indexAdd: addRows,
};
