import { GraphBuilder } from '../onnx/graph-builder.ts';
import { lower } from '../onnx/lower/lowerings.ts';
import { widenedInputs } from '../onnx/session-type.ts';
import type { PieceProgram } from './piece-program.ts';
import type { Segment } from './step.ts';

/** The ONNX model of a piece; its inputs and outputs are in the piece's order. */
export function onnxModel(segment: Segment, piece: PieceProgram): Uint8Array {
  const graph = new GraphBuilder(
    segment.values,
    piece.inputs,
    widenedInputs(piece.steps, segment.values),
  );
  for (const step of piece.steps) lower(graph, step);
  return graph.finish(piece.outputs);
}

/** For error messages: the ops and shapes of a piece, the first few of many. */
export function describePiece(piece: PieceProgram): string {
  const shown = piece.steps
    .slice(0, 20)
    .map(({ op, dtype, shape }) => `${op} ${dtype} [${shape.join(', ')}]`);
  const more = piece.steps.length - shown.length;
  return more > 0 ? `${shown.join(', ')} and ${more} more` : shown.join(', ');
}
