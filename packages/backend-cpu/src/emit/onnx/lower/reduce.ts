import { inputAt, type InstructionMap } from '../../../program/instruction.ts';
import type { GraphBuilder } from '../graph-builder.ts';
import type { Operand } from '../operand.ts';
import { exactOf, type Lowerings } from './lowering.ts';

const dropDims = { keepdims: { int: 0 } };

/** Checks for NaN separately, because ORT's ReduceMax may miss a NaN that is not the first element of its row. */
function maxOf(graph: GraphBuilder, instruction: InstructionMap['max']): Operand {
  const x = exactOf(graph, instruction, 0);
  const axes = graph.int64s(instruction.params.dims);
  const largest = graph.emit('ReduceMax', [x, axes], dropDims);
  if (instruction.dtype !== 'f32') return { name: largest, shape: instruction.shape };
  const anyNaN = graph.emit('ReduceMax', [graph.emit('IsNaN', [x]), axes], dropDims);
  const name = graph.emit('Where', [anyNaN, graph.scalar('f32', NaN), largest]);
  return { name, shape: instruction.shape };
}

/**
 * ORT's TopK of all elements is a stable sort, but it has no order for NaN. So each NaN is sorted as infinity first,
 * and a second pass sorts the NaN past the infinities.
 */
function orderOf(graph: GraphBuilder, instruction: InstructionMap['argSort']): Operand {
  const { dim, descending } = instruction.params;
  const x = exactOf(graph, instruction, 0);
  const axis = { axis: { int: dim } };
  const size = graph.emit('Shape', [x], { start: { int: dim }, end: { int: dim + 1 } });
  const options = { ...axis, largest: { int: Number(descending) } };
  const sorted = (values: string): string => graph.emitSecond('TopK', [values, size], options);
  const { dtype } = graph.type(inputAt(instruction, 0));
  if (dtype !== 'f32') return { name: graph.cast(sorted(x), 'i32'), shape: instruction.shape };
  const isNaN = graph.emit('IsNaN', [x]);
  const places = sorted(graph.emit('Where', [isNaN, graph.scalar('f32', Infinity), x]));
  const moved = graph.cast(graph.emit('GatherElements', [isNaN, places], axis), 'i32');
  const order = graph.emit('GatherElements', [places, sorted(moved)], axis);
  return { name: graph.cast(order, 'i32'), shape: instruction.shape };
}

export const reduce: Lowerings<'sum' | 'max' | 'argSort'> = {
  sum: (graph, instruction) => {
    const axes = graph.int64s(instruction.params.dims);
    const name = graph.emit('ReduceSum', [exactOf(graph, instruction, 0), axes], dropDims);
    return { name, shape: instruction.shape };
  },
  max: maxOf,
  argSort: orderOf,
};
