import { GraphBuilder } from '../graph-builder.ts';
import type { OnnxGraph } from '../model.ts';
import { lower } from './lowerings.ts';
import { convertedValues } from '../session-type.ts';
import type { CpuProgram, CpuInstruction } from '../../../program/instruction.ts';
import type { CompletePartition } from '../../../program/partition.ts';
import { isWidening } from '../../../program/half-casts.ts';

/** Makes the ONNX graph of a partition. The graph's inputs and outputs are in the partition's order. */
export function onnxGraph(program: CpuProgram, partition: CompletePartition): OnnxGraph {
  const graph = new GraphBuilder(
    program.values,
    partition.inputs,
    convertedValues(partition.instructions, program.values),
  );
  for (const instruction of widenedInputsFirst(program, partition)) lower(graph, instruction);
  return graph.finish(partition.outputs);
}

/**
 * The instructions of a partition, with the f32 values of 16-bit inputs, and reshapes of them, at the front. ONNX
 * Runtime computes that operand of a node first whose own node comes last in the model. So a layer's weights are
 * widened when the layer's input is there, and not the weights of all layers at once.
 */
function widenedInputsFirst(
  program: CpuProgram,
  partition: CompletePartition,
): readonly CpuInstruction[] {
  const inputs = new Set(partition.inputs);
  const widened = new Set<number>();
  const first: CpuInstruction[] = [];
  const rest: CpuInstruction[] = [];
  for (const instruction of partition.instructions) {
    const widens =
      isWidening(instruction, program.values) && instruction.inputs.every((id) => inputs.has(id));
    const moves = instruction.op === 'reshape' && instruction.inputs.every((id) => widened.has(id));
    if (widens || moves) widened.add(instruction.output);
    (widens || moves ? first : rest).push(instruction);
  }
  return [...first, ...rest];
}
