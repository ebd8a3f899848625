import { elementOf, type Lowerings } from './lowering.ts';

export const leaves: Lowerings<'constant' | 'iota'> = {
  constant: (graph, instruction) => {
    const type = graph.typeOf(instruction);
    const { value } = instruction.params;
    // A session that converts the constant takes the number itself, not its bits.
    const element = type === 'u16' ? elementOf(instruction.dtype, value) : value;
    return { name: graph.scalar(type, element), shape: [] };
  },
  iota: (graph, instruction) => {
    const { dim } = instruction.params;
    const size = instruction.shape[dim] ?? 1;
    const shape = instruction.shape.map((_, other) => (other === dim ? size : 1));
    const end = graph.emit('Squeeze', [graph.int64s([size])]);
    const range = graph.emit('Range', [graph.scalar('i64', 0), end, graph.scalar('i64', 1)]);
    const name = graph.emit('Reshape', [graph.cast(range, 'i32'), graph.int64s(shape)]);
    return { name, shape };
  },
};
