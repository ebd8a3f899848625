import type { Shape } from '@shardwise/core/spec';

/**
 * A value as an ONNX graph holds it. `shape` is the value's own shape, or what broadcasts to it:
 * [] or the value's rank with some dims of size 1.
 */
export interface Operand {
  readonly name: string;
  readonly shape: Shape;
}

/** The shape of an elementwise op on operands of one value shape. */
export function broadcastShape(operands: readonly Operand[]): Shape {
  const rank = Math.max(0, ...operands.map(({ shape }) => shape.length));
  return Array.from({ length: rank }, (_, dim) =>
    Math.max(1, ...operands.map(({ shape }) => shape[dim] ?? 1)),
  );
}
