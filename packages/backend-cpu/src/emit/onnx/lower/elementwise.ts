import { inputAt, type InstructionMap } from '../../../program/instruction.ts';
import type { GraphBuilder } from '../graph-builder.ts';
import { broadcastShape, type Operand } from '../operand.ts';
import { operandOf, type Lowering, type Lowerings } from './lowering.ts';

type Unary =
  | 'neg'
  | 'abs'
  | 'exp'
  | 'log'
  | 'sqrt'
  | 'sin'
  | 'cos'
  | 'atan'
  | 'tanh'
  | 'erf'
  | 'floor'
  | 'ceil'
  | 'logicalNot'
  | 'relu';

type Binary =
  | 'add'
  | 'sub'
  | 'mul'
  | 'pow'
  | 'maximum'
  | 'minimum'
  | 'equal'
  | 'less'
  | 'lessEqual'
  | 'logicalAnd'
  | 'logicalOr';

function unary<K extends Unary>(op: string): Lowering<K> {
  return (graph, instruction) => {
    const x = operandOf(graph, instruction, 0);
    return { name: graph.emit(op, [x.name]), shape: x.shape };
  };
}

function binary<K extends Binary>(op: string): Lowering<K> {
  return (graph, instruction) => {
    const [a, b] = [operandOf(graph, instruction, 0), operandOf(graph, instruction, 1)];
    return { name: graph.emit(op, [a.name, b.name]), shape: broadcastShape([a, b]) };
  };
}

/** Divides i32 values as f64, which is exact enough, because ORT's Div of i32 traps on zero divisors. */
function divide(graph: GraphBuilder, instruction: InstructionMap['div']): Operand {
  const [a, b] = [operandOf(graph, instruction, 0), operandOf(graph, instruction, 1)];
  const shape = broadcastShape([a, b]);
  if (instruction.dtype !== 'i32') return { name: graph.emit('Div', [a.name, b.name]), shape };
  const quotient = graph.emit('Div', [graph.cast(a.name, 'f64'), graph.cast(b.name, 'f64')]);
  return { name: graph.cast(quotient, 'i32'), shape };
}

/**
 * Computes the sigmoid from other nodes. ORT's Sigmoid is inaccurate where its result is small, because its polynomial
 * ends at -18.
 */
function logistic(graph: GraphBuilder, instruction: InstructionMap['sigmoid']): Operand {
  const x = operandOf(graph, instruction, 0);
  const one = graph.scalar('f32', 1);
  const exponential = graph.emit('Exp', [graph.emit('Neg', [x.name])]);
  const name = graph.emit('Div', [one, graph.emit('Add', [exponential, one])]);
  return { name, shape: x.shape };
}

/**
 * Works around ORT, which has no Where for bool, and whose Where of floats loses the sign of a zero of the first
 * branch.
 */
function select(graph: GraphBuilder, instruction: InstructionMap['where']): Operand {
  const operands = [0, 1, 2].map((index) => operandOf(graph, instruction, index));
  const shape = broadcastShape(operands);
  const [condition = '', first = '', second = ''] = operands.map(({ name }) => name);
  const { dtype } = instruction;
  if (dtype === 'bool') {
    const bytes = [first, second].map((name) => graph.cast(name, 'u8'));
    return { name: graph.cast(graph.emit('Where', [condition, ...bytes]), 'bool'), shape };
  }
  const hasSigns = dtype === 'f32' || dtype === 'f64';
  if (!hasSigns || keepsSign(graph.constantOf(first))) {
    return { name: graph.emit('Where', [condition, first, second]), shape };
  }
  // ORT would merge a Not into Where and exchange the branches, so this uses Xor.
  const opposite = graph.emit('Xor', [condition, graph.scalar('bool', 1)]);
  if (keepsSign(graph.constantOf(second))) {
    return { name: graph.emit('Where', [opposite, second, first]), shape };
  }
  const one = graph.scalar(dtype, 1);
  const factors = [
    graph.emit('Where', [opposite, one, first]),
    graph.emit('Where', [condition, one, second]),
  ];
  return { name: graph.emit('Mul', factors), shape };
}

function keepsSign(constant: number | undefined): boolean {
  return constant !== undefined && !Object.is(constant, -0);
}

export const elementwise: Lowerings<
  Unary | Binary | 'sigmoid' | 'div' | 'fmod' | 'where' | 'cast' | 'gelu'
> = {
  neg: unary('Neg'),
  abs: unary('Abs'),
  exp: unary('Exp'),
  log: unary('Log'),
  sqrt: unary('Sqrt'),
  sin: unary('Sin'),
  cos: unary('Cos'),
  atan: unary('Atan'),
  tanh: unary('Tanh'),
  erf: unary('Erf'),
  floor: unary('Floor'),
  ceil: unary('Ceil'),
  logicalNot: unary('Not'),
  sigmoid: logistic,
  relu: unary('Relu'),
  add: binary('Add'),
  sub: binary('Sub'),
  mul: binary('Mul'),
  pow: binary('Pow'),
  maximum: binary('Max'),
  minimum: binary('Min'),
  equal: binary('Equal'),
  less: binary('Less'),
  lessEqual: binary('LessOrEqual'),
  logicalAnd: binary('And'),
  logicalOr: binary('Or'),
  div: divide,
  fmod: (graph, instruction) => {
    const [a, b] = [operandOf(graph, instruction, 0), operandOf(graph, instruction, 1)];
    const name = graph.emit('Mod', [a.name, b.name], { fmod: { int: 1 } });
    return { name, shape: broadcastShape([a, b]) };
  },
  where: select,
  cast: (graph, instruction) => {
    const x = graph.operand(inputAt(instruction, 0));
    return { name: graph.cast(x.name, graph.typeOf(instruction)), shape: x.shape };
  },
  gelu: (graph, instruction) => {
    const x = operandOf(graph, instruction, 0);
    const approximate = { string: instruction.params.approximate };
    return { name: graph.emit('Gelu', [x.name], { approximate }), shape: x.shape };
  },
};
