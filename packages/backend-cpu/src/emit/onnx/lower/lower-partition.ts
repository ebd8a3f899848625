import { GraphBuilder } from '../graph-builder.ts';
import type { OnnxGraph } from '../model.ts';
import { lower } from './lowerings.ts';
import { convertedValues } from '../session-type.ts';
import type { Segment, Step } from '../../../program/instruction.ts';
import type { PieceProgram } from '../../../program/partition.ts';
import { isWidening } from '../../../program/half-casts.ts';

/** Makes the ONNX graph of a piece. The graph's inputs and outputs are in the piece's order. */
export function onnxGraph(segment: Segment, piece: PieceProgram): OnnxGraph {
  const graph = new GraphBuilder(
    segment.values,
    piece.inputs,
    convertedValues(piece.steps, segment.values),
  );
  for (const step of widenedInputsFirst(segment, piece)) lower(graph, step);
  return graph.finish(piece.outputs);
}

/**
 * The steps of a piece, with the f32 values of 16-bit inputs, and reshapes of them, at the front. ONNX Runtime computes
 * that operand of a node first whose own node comes last in the model. So a layer's weights are widened when the
 * layer's input is there, and not the weights of all layers at once.
 */
function widenedInputsFirst(segment: Segment, piece: PieceProgram): readonly Step[] {
  const inputs = new Set(piece.inputs);
  const widened = new Set<number>();
  const first: Step[] = [];
  const rest: Step[] = [];
  for (const step of piece.steps) {
    const widens = isWidening(step, segment.values) && step.inputs.every((id) => inputs.has(id));
    const moves = step.op === 'reshape' && step.inputs.every((id) => widened.has(id));
    if (widens || moves) widened.add(step.output);
    (widens || moves ? first : rest).push(step);
  }
  return [...first, ...rest];
}
