import type { PieceDescription } from '../compile/describe-piece.ts';
import type { OnnxGraph } from './model.ts';
import type { OnnxSlots } from './onnx-slots.ts';

/** A piece that runs as one session. */
export interface PlannedOnnx {
  readonly kind: 'onnx';
  readonly graph: OnnxGraph;
  readonly slots: OnnxSlots;
  readonly description: PieceDescription;
}
