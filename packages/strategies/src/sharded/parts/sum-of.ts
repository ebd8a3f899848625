import { type Node, noGrad, Tensor } from '@shardwise/core/extend';

/** Adds two gradients, the second of which may be null. The sum is f32 if their dtypes differ. Shape: N, N -> N. */
export function sumOf(first: Node, second: Node | null): Node;
export function sumOf(first: Node | null, second: Node | null): Node | null;
export function sumOf(first: Node | null, second: Node | null): Node | null {
  if (first === null || second === null) return first ?? second;
  return noGrad(() => {
    const [a, b] = [new Tensor(first), new Tensor(second)];
    return a.dtype === b.dtype ? a.add(b) : a.to('f32').add(b.to('f32'));
  }).node;
}
