import { exactOf, type Lowerings } from './lowering.ts';

/** Composites over the last dim for which ORT has kernels. */
export const rows: Lowerings<'softmax' | 'logSoftmax' | 'layerNorm'> = {
  softmax: (graph, instruction) => ({
    name: graph.emit('Softmax', [exactOf(graph, instruction, 0)], { axis: { int: -1 } }),
    shape: instruction.shape,
  }),
  logSoftmax: (graph, instruction) => ({
    name: graph.emit('LogSoftmax', [exactOf(graph, instruction, 0)], { axis: { int: -1 } }),
    shape: instruction.shape,
  }),
  layerNorm: (graph, instruction) => {
    const operands = [0, 1, 2].map((index) => exactOf(graph, instruction, index));
    const attributes = { axis: { int: -1 }, epsilon: { float: instruction.params.eps } };
    return {
      name: graph.emit('LayerNormalization', operands, attributes),
      shape: instruction.shape,
    };
  },
};
