import { elementOf, type Lowerings } from './lowering.ts';

export const leaves: Lowerings<'constant' | 'iota'> = {
  constant: (graph, step) => ({
    name: graph.scalar(graph.typeOf(step), elementOf(step.dtype, step.params.value)),
    shape: [],
  }),
  iota: (graph, step) => {
    const { dim } = step.params;
    const size = step.shape[dim] ?? 1;
    const bounds = [0, size, 1].map((value) => graph.scalar('i32', value));
    const shape = step.shape.map((_, other) => (other === dim ? size : 1));
    const name = graph.emit('Reshape', [graph.emit('Range', bounds), graph.int64s(shape)]);
    return { name, shape };
  },
};
