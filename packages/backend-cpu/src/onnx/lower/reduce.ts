import type { StepMap } from '../../compile/step.ts';
import type { GraphBuilder } from '../graph-builder.ts';
import type { Operand } from '../operand.ts';
import { exactOf, type Lowerings } from './lowering.ts';

const dropDims = { keepdims: { int: 0 } };

/** ORT's ReduceMax may miss a NaN that is not the first of its row. */
function maxOf(graph: GraphBuilder, step: StepMap['max']): Operand {
  const x = exactOf(graph, step, 0);
  const axes = graph.int64s(step.params.dims);
  const largest = graph.emit('ReduceMax', [x, axes], dropDims);
  if (step.dtype !== 'f32') return { name: largest, shape: step.shape };
  const anyNaN = graph.emit('ReduceMax', [graph.emit('IsNaN', [x]), axes], dropDims);
  const name = graph.emit('Where', [anyNaN, graph.scalar('f32', NaN), largest]);
  return { name, shape: step.shape };
}

export const reduce: Lowerings<'sum' | 'max'> = {
  sum: (graph, step) => {
    const axes = graph.int64s(step.params.dims);
    const name = graph.emit('ReduceSum', [exactOf(graph, step, 0), axes], dropDims);
    return { name, shape: step.shape };
  },
  max: maxOf,
};
