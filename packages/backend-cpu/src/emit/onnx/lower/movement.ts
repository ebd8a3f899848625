import { elementCount } from '../../../program/instruction.ts';
import { elementOf, exactOf, operandOf, type Lowerings } from './lowering.ts';

export const movement: Lowerings<'reshape' | 'permute' | 'expand' | 'slice' | 'pad' | 'concat'> = {
  reshape: (graph, step) => {
    const x = operandOf(graph, step, 0);
    if (x.shape.length === 0) return x;
    const name = graph.emit('Reshape', [exactOf(graph, step, 0), graph.int64s(step.shape)]);
    return { name, shape: step.shape };
  },
  permute: (graph, step) => {
    const x = operandOf(graph, step, 0);
    if (x.shape.length === 0) return x;
    const perm = { ints: step.params.order };
    const shape = step.params.order.map((dim) => x.shape[dim] ?? 1);
    return { name: graph.emit('Transpose', [x.name], { perm }), shape };
  },
  // Nodes that broadcast read the small operand. For other nodes, GraphBuilder.exact expands it.
  expand: (graph, step) => operandOf(graph, step, 0),
  slice: (graph, step) => {
    const { starts, stops, steps } = step.params;
    const dims = [...starts.keys()];
    const lists = [starts, stops, dims, steps].map((list) => graph.int64s(list));
    const name = graph.emit('Slice', [exactOf(graph, step, 0), ...lists]);
    return { name, shape: step.shape };
  },
  pad: (graph, step) => {
    const { before, after, value } = step.params;
    const type = graph.typeOf(step);
    const pads = graph.int64s([...before, ...after]);
    const x = exactOf(graph, step, 0);
    const { shape } = step;
    if (type !== 'u16') {
      return { name: graph.emit('Pad', [x, pads, graph.scalar(type, value)]), shape };
    }
    // ORT has no Pad for 16 bits.
    const fill = graph.scalar('i32', elementOf(step.dtype, value));
    const padded = graph.emit('Pad', [graph.cast(x, 'i32'), pads, fill]);
    return { name: graph.cast(padded, type), shape };
  },
  concat: (graph, step) => {
    const parts = step.inputs
      .map((id) => graph.exact(id))
      .filter(({ shape }) => elementCount(shape) > 0);
    const axis = { int: step.params.dim };
    const names = parts.map(({ name }) => name);
    return { name: graph.emit('Concat', names, { axis }), shape: step.shape };
  },
};
