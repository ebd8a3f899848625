import { elementCount } from '@shardwise/core/base';
import { elementOf, exactOf, operandOf, type Lowerings } from './lowering.ts';

export const movement: Lowerings<'reshape' | 'permute' | 'expand' | 'slice' | 'pad' | 'concat'> = {
  reshape: (graph, instruction) => {
    const x = operandOf(graph, instruction, 0);
    if (x.shape.length === 0) return x;
    const name = graph.emit('Reshape', [
      exactOf(graph, instruction, 0),
      graph.int64s(instruction.shape),
    ]);
    return { name, shape: instruction.shape };
  },
  permute: (graph, instruction) => {
    const x = operandOf(graph, instruction, 0);
    if (x.shape.length === 0) return x;
    const perm = { ints: instruction.params.order };
    const shape = instruction.params.order.map((dim) => x.shape[dim] ?? 1);
    return { name: graph.emit('Transpose', [x.name], { perm }), shape };
  },
  // Nodes that broadcast read the small operand. For other nodes, GraphBuilder.exact expands it.
  expand: (graph, instruction) => operandOf(graph, instruction, 0),
  slice: (graph, instruction) => {
    const { starts, stops, steps } = instruction.params;
    const dims = [...starts.keys()];
    const lists = [starts, stops, dims, steps].map((list) => graph.int64s(list));
    const name = graph.emit('Slice', [exactOf(graph, instruction, 0), ...lists]);
    return { name, shape: instruction.shape };
  },
  pad: (graph, instruction) => {
    const { before, after, value } = instruction.params;
    const type = graph.typeOf(instruction);
    const pads = graph.int64s([...before, ...after]);
    const x = exactOf(graph, instruction, 0);
    const { shape } = instruction;
    if (type !== 'u16') {
      return { name: graph.emit('Pad', [x, pads, graph.scalar(type, value)]), shape };
    }
    // ORT has no Pad for 16 bits.
    const fill = graph.scalar('i32', elementOf(instruction.dtype, value));
    const padded = graph.emit('Pad', [graph.cast(x, 'i32'), pads, fill]);
    return { name: graph.cast(padded, type), shape };
  },
  concat: (graph, instruction) => {
    const parts = instruction.inputs
      .map((id) => graph.exact(id))
      .filter(({ shape }) => elementCount(shape) > 0);
    const axis = { int: instruction.params.dim };
    const names = parts.map(({ name }) => name);
    return { name: graph.emit('Concat', names, { axis }), shape: instruction.shape };
  },
};
