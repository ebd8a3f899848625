import { inputAt, type StepMap } from '../../../program/instruction.ts';
import type { GraphBuilder } from '../graph-builder.ts';
import type { Operand } from '../operand.ts';
import { exactOf, type Lowerings } from './lowering.ts';

const dropDims = { keepdims: { int: 0 } };

/** Checks for NaN separately, because ORT's ReduceMax may miss a NaN that is not the first element of its row. */
function maxOf(graph: GraphBuilder, step: StepMap['max']): Operand {
  const x = exactOf(graph, step, 0);
  const axes = graph.int64s(step.params.dims);
  const largest = graph.emit('ReduceMax', [x, axes], dropDims);
  if (step.dtype !== 'f32') return { name: largest, shape: step.shape };
  const anyNaN = graph.emit('ReduceMax', [graph.emit('IsNaN', [x]), axes], dropDims);
  const name = graph.emit('Where', [anyNaN, graph.scalar('f32', NaN), largest]);
  return { name, shape: step.shape };
}

/**
 * ORT's TopK of all elements is a stable sort, but it has no order for NaN. So each NaN is sorted as infinity first,
 * and a second pass sorts the NaN past the infinities.
 */
function orderOf(graph: GraphBuilder, step: StepMap['argSort']): Operand {
  const { dim, descending } = step.params;
  const x = exactOf(graph, step, 0);
  const axis = { axis: { int: dim } };
  const size = graph.emit('Shape', [x], { start: { int: dim }, end: { int: dim + 1 } });
  const options = { ...axis, largest: { int: Number(descending) } };
  const sorted = (values: string): string => graph.emitSecond('TopK', [values, size], options);
  const { dtype } = graph.type(inputAt(step, 0));
  if (dtype !== 'f32') return { name: graph.cast(sorted(x), 'i32'), shape: step.shape };
  const isNaN = graph.emit('IsNaN', [x]);
  const places = sorted(graph.emit('Where', [isNaN, graph.scalar('f32', Infinity), x]));
  const moved = graph.cast(graph.emit('GatherElements', [isNaN, places], axis), 'i32');
  const order = graph.emit('GatherElements', [places, sorted(moved)], axis);
  return { name: graph.cast(order, 'i32'), shape: step.shape };
}

export const reduce: Lowerings<'sum' | 'max' | 'argSort'> = {
  sum: (graph, step) => {
    const axes = graph.int64s(step.params.dims);
    const name = graph.emit('ReduceSum', [exactOf(graph, step, 0), axes], dropDims);
    return { name, shape: step.shape };
  },
  max: maxOf,
  argSort: orderOf,
};
