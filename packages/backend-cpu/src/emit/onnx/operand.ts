import type { Shape } from '@shardwise/core/spec';

/**
 * A value in an ONNX graph. `shape` is the value's own shape, or a shape that broadcasts to it: [], or as many dims
 * with some of size 1.
 */
export interface Operand {
  readonly name: string;
  readonly shape: Shape;
}

/** The shape of the result of an elementwise op. All operands stand for values of one shape. */
export function broadcastShape(operands: readonly Operand[]): Shape {
  const rank = Math.max(0, ...operands.map(({ shape }) => shape.length));
  return Array.from({ length: rank }, (_, dim) =>
    Math.max(1, ...operands.map(({ shape }) => shape[dim] ?? 1)),
  );
}
