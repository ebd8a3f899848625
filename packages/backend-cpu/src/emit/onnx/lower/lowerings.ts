import {
  BackendError,
  type ComputeOp,
  type DType,
  type PrimitiveOp,
  type ValueType,
} from '@shardwise/core/spec';
import type { CpuInstruction, InstructionMap } from '../../../program/instruction.ts';
import type { GraphBuilder } from '../graph-builder.ts';
import { convolution } from './convolution.ts';
import { elementwise } from './elementwise.ts';
import { indexing, type IndexingOp } from './indexing.ts';
import { leaves } from './leaves.ts';
import { matmul } from './matmul.ts';
import { movement } from './movement.ts';
import { reduce } from './reduce.ts';
import { rows } from './rows.ts';
import type { Lowerings } from './lowering.ts';

/** The nodes of the ops that sessions of the engine compute. Kernels and products of ours compute the others. */
const lowerings = {
  ...leaves,
  ...elementwise,
  ...reduce,
  ...movement,
  ...matmul,
  ...convolution,
  ...rows,
} satisfies Lowerings<Exclude<PrimitiveOp, IndexingOp | 'random'>>;

type OnnxOp = keyof typeof lowerings;

/** The ops of models for other runtimes. */
type StandardOp = OnnxOp | IndexingOp;

const standardLowerings: Lowerings<StandardOp> = { ...lowerings, ...indexing };

function isOnnxOp(op: ComputeOp): op is OnnxOp {
  return op in lowerings;
}

const moving: ReadonlySet<ComputeOp> = new Set<ComputeOp>([
  'constant',
  'reshape',
  'expand',
  'permute',
  'slice',
  'pad',
  'concat',
]);

const computedHere: ReadonlySet<DType> = new Set<DType>(['f32', 'i32', 'bool']);

/**
 * Whether a session can run an instruction. Sessions compute with f32, i32 and bool, and only move values of other
 * dtypes. `inputs` are the types of the instruction's inputs.
 */
export function onnxComputes(instruction: CpuInstruction, inputs: readonly ValueType[]): boolean {
  const { op, dtype } = instruction;
  if (!isOnnxOp(op)) return false;
  // ORT's sums and powers of integers saturate.
  if ((op === 'sum' || op === 'pow') && dtype === 'i32') return false;
  // ORT has Where for 64 bits, but not for 16.
  if (op === 'where' && (dtype === 'i64' || dtype === 'f64')) return true;
  return moving.has(op) || [instruction, ...inputs].every((type) => computedHere.has(type.dtype));
}

function lowerInstruction<K extends StandardOp>(
  table: Lowerings<K>,
  graph: GraphBuilder,
  instruction: InstructionMap[K],
): void {
  graph.define(instruction.output, table[instruction.op](graph, instruction));
}

/** Adds an instruction to a graph. Throws BackendError for an instruction that sessions cannot compute. */
export function lower(graph: GraphBuilder, instruction: CpuInstruction): void {
  const types = instruction.inputs.map((id) => graph.type(id));
  const takes = onnxComputes(instruction, types) || graph.converts(instruction);
  if (!isOnnxInstruction(instruction) || !takes) {
    throw new BackendError(
      {
        asked: `to compute with ${[...new Set([...types, instruction].map(({ dtype }) => dtype))].join(', ')} in ${instruction.op}`,
        found: 'the CPU backend computes with f32, i32 and bool, and moves and converts the others',
        todo: 'Convert to f32 first',
      },
      { op: instruction.op, dtype: instruction.dtype },
    );
  }
  lowerInstruction(lowerings, graph, instruction);
}

function isOnnxInstruction(instruction: CpuInstruction): instruction is InstructionMap[OnnxOp] {
  return isOnnxOp(instruction.op);
}

/** Adds an instruction to a graph for other runtimes. Throws BackendError for an op that ONNX does not have. */
export function lowerStandard(graph: GraphBuilder, instruction: CpuInstruction): void {
  if (isStandardInstruction(instruction)) {
    lowerInstruction(standardLowerings, graph, instruction);
    return;
  }
  const { op, dtype } = instruction;
  const isRandom = op === 'random';
  throw new BackendError(
    {
      asked: `an ONNX node for ${op}`,
      found: isRandom ? 'the model draws random numbers' : 'ONNX has no such operator',
      todo: isRandom
        ? 'Leave out what draws, also if the model is not trained'
        : 'Compute it from other operations',
    },
    { op, dtype },
  );
}

function isStandardInstruction(
  instruction: CpuInstruction,
): instruction is InstructionMap[StandardOp] {
  return instruction.op in standardLowerings;
}
