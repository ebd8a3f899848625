import { elementOf, type Lowerings } from './lowering.ts';

export const leaves: Lowerings<'constant' | 'iota'> = {
  constant: (graph, step) => {
    const type = graph.typeOf(step);
    const { value } = step.params;
    // A session that converts the constant takes the number itself, not its bits.
    const element = type === 'u16' ? elementOf(step.dtype, value) : value;
    return { name: graph.scalar(type, element), shape: [] };
  },
  iota: (graph, step) => {
    const { dim } = step.params;
    const size = step.shape[dim] ?? 1;
    const shape = step.shape.map((_, other) => (other === dim ? size : 1));
    const end = graph.emit('Squeeze', [graph.int64s([size])]);
    const range = graph.emit('Range', [graph.scalar('i64', 0), end, graph.scalar('i64', 1)]);
    const name = graph.emit('Reshape', [graph.cast(range, 'i32'), graph.int64s(shape)]);
    return { name, shape };
  },
};
