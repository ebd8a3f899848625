import { exactOf, type Lowerings } from './lowering.ts';

/** Composites over the last dim for which ORT has kernels. */
export const rows: Lowerings<'softmax' | 'logSoftmax' | 'layerNorm'> = {
  softmax: (graph, step) => ({
    name: graph.emit('Softmax', [exactOf(graph, step, 0)], { axis: { int: -1 } }),
    shape: step.shape,
  }),
  logSoftmax: (graph, step) => ({
    name: graph.emit('LogSoftmax', [exactOf(graph, step, 0)], { axis: { int: -1 } }),
    shape: step.shape,
  }),
  layerNorm: (graph, step) => {
    const operands = [0, 1, 2].map((index) => exactOf(graph, step, index));
    const attributes = { axis: { int: -1 }, epsilon: { float: step.params.eps } };
    return { name: graph.emit('LayerNormalization', operands, attributes), shape: step.shape };
  },
};
