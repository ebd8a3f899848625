import type { ComputeOp } from '@shardwise/core/spec';
import { inputAt, type InstructionMap } from '../../../program/instruction.ts';
import type { GraphBuilder } from '../graph-builder.ts';
import type { Operand } from '../operand.ts';
import { exactOf, operandOf, type Lowering, type Lowerings } from './lowering.ts';

const dropDims = { keepdims: { int: 0 } };

/** NaN has no sign in ONNX, and the sign 0 here. */
function signOf(graph: GraphBuilder, instruction: InstructionMap['sign']): Operand {
  const x = operandOf(graph, instruction, 0);
  const sign = graph.emit('Sign', [x.name]);
  if (instruction.dtype !== 'f32') return { name: sign, shape: x.shape };
  const isNaN = graph.emit('IsNaN', [x.name]);
  return { name: graph.emit('Where', [isNaN, graph.scalar('f32', 0), sign]), shape: x.shape };
}

/** The first NaN counts as the largest element. ONNX does not say where it comes in an order. */
function argMaxOf(graph: GraphBuilder, instruction: InstructionMap['argMax']): Operand {
  const { dim } = instruction.params;
  const attributes = { axis: { int: dim }, ...dropDims };
  const x = exactOf(graph, instruction, 0);
  const place = graph.emit('ArgMax', [x], attributes);
  const { shape } = instruction;
  if (graph.type(inputAt(instruction, 0)).dtype !== 'f32') {
    return { name: graph.cast(place, 'i32'), shape };
  }
  const isNaN = graph.cast(graph.emit('IsNaN', [x]), 'i32');
  const anyNaN = graph.cast(
    graph.emit('ReduceMax', [isNaN, graph.int64s([dim])], dropDims),
    'bool',
  );
  const found = graph.emit('Where', [anyNaN, graph.emit('ArgMax', [isNaN], attributes), place]);
  return { name: graph.cast(found, 'i32'), shape };
}

/** Running sums of f32 are added in f64. */
function runningSum(graph: GraphBuilder, instruction: InstructionMap['cumsum']): Operand {
  const { dim, reverse } = instruction.params;
  const x = exactOf(graph, instruction, 0);
  const isWide = instruction.dtype === 'f32';
  const operands = [isWide ? graph.cast(x, 'f64') : x, graph.scalar('i64', dim)];
  const sums = graph.emit('CumSum', operands, { reverse: { int: Number(reverse) } });
  return { name: isWide ? graph.cast(sums, 'f32') : sums, shape: instruction.shape };
}

function scatterWith<K extends 'scatter' | 'scatterAdd'>(reduction: string): Lowering<K> {
  return (graph, instruction) => {
    const operands = [0, 1, 2].map((index) => exactOf(graph, instruction, index));
    const attributes = {
      axis: { int: instruction.params.dim },
      reduction: { string: reduction },
    };
    return { name: graph.emit('ScatterElements', operands, attributes), shape: instruction.shape };
  };
}

/** Adds whole rows: the index of a row becomes that of each of its elements. */
function addRows(graph: GraphBuilder, instruction: InstructionMap['indexAdd']): Operand {
  const { dim } = instruction.params;
  const source = graph.type(inputAt(instruction, 2)).shape;
  const column = source.map((size, other) => (other === dim ? size : 1));
  const reshaped = graph.emit('Reshape', [exactOf(graph, instruction, 1), graph.int64s(column)]);
  const index = graph.emit('Expand', [reshaped, graph.int64s(source)]);
  const operands = [exactOf(graph, instruction, 0), index, exactOf(graph, instruction, 2)];
  const attributes = { axis: { int: dim }, reduction: { string: 'add' } };
  return { name: graph.emit('ScatterElements', operands, attributes), shape: instruction.shape };
}

function indexed<K extends 'gather' | 'indexSelect'>(op: string): Lowering<K> {
  return (graph, instruction) => {
    const operands = [exactOf(graph, instruction, 0), exactOf(graph, instruction, 1)];
    const axis = { int: instruction.params.dim };
    return { name: graph.emit(op, operands, { axis }), shape: instruction.shape };
  };
}

/** The ops that sessions of the engine leave to kernels, and that models for other runtimes have as nodes. */
export type IndexingOp = Extract<
  ComputeOp,
  | 'sign'
  | 'argMax'
  | 'cumsum'
  | 'gather'
  | 'indexSelect'
  | 'scatter'
  | 'scatterAdd'
  | 'indexAdd'
  | 'softplus'
>;

export const indexing: Lowerings<IndexingOp> = {
  sign: signOf,
  argMax: argMaxOf,
  cumsum: runningSum,
  gather: indexed('GatherElements'),
  indexSelect: indexed('Gather'),
  scatter: scatterWith('none'),
  scatterAdd: scatterWith('add'),
  indexAdd: addRows,
  softplus: (graph, instruction) => {
    const x = operandOf(graph, instruction, 0);
    return { name: graph.emit('Softplus', [x.name]), shape: x.shape };
  },
};
