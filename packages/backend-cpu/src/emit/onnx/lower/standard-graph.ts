import {
  BackendError,
  type CompositeOp,
  type Instruction,
  type Program,
} from '@shardwise/core/spec';
import type { CpuInstruction } from '../../../program/instruction.ts';
import { GraphBuilder } from '../graph-builder.ts';
import type { OnnxGraph } from '../model.ts';
import { lowerStandard } from './lowerings.ts';

/** The composites that ONNX has as operators of the standard set, with the precision of f32. */
export const standardComposites: ReadonlySet<CompositeOp> = new Set<CompositeOp>([
  'relu',
  'sigmoid',
  'softplus',
  'gelu',
  'softmax',
  'logSoftmax',
  'layerNorm',
]);

/**
 * Makes the graph of a whole program, for runtimes that are not ours. Its nodes are of the standard operator set, its
 * inputs i0, i1, … are those of the program, and its outputs o0, o1, … are the values of `outputs`. `given` are constants
 * that are not computed in the graph: names of scalars, by the number of the instruction. Throws BackendError that names
 * an op which a graph cannot have.
 */
export function standardGraph(
  program: Pick<Program, 'inputs' | 'instructions' | 'outputs'>,
  given: ReadonlyMap<number, string>,
): OnnxGraph {
  const { inputs, instructions, outputs } = program;
  const values = [...inputs, ...instructions];
  for (const { dtype } of values) {
    if (dtype === 'f16' || dtype === 'bf16') throw ofHalves(dtype);
  }
  const graph = new GraphBuilder(values, [...inputs.keys()], new Map(), 'standard');
  for (const [index, instruction] of instructions.entries()) {
    const output = inputs.length + index;
    const name = given.get(index);
    if (name === undefined) lowerStandard(graph, numbered(instruction, output));
    else graph.define(output, { name, shape: [] });
  }
  return graph.finish(outputs);
}

function numbered(instruction: Instruction, output: number): CpuInstruction {
  return { ...instruction, output };
}

function ofHalves(dtype: string): BackendError {
  return new BackendError(
    {
      asked: `an ONNX graph with values of ${dtype}`,
      found: 'values of f32, i32 and bool alone are computed with',
      todo: "Convert the model first, with model.to('f32'), and call it without mixed precision",
    },
    { dtype },
  );
}
