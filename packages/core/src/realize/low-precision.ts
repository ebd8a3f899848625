import { cast } from '../graph/build/elementwise.ts';
import type { Node } from '../graph/node.ts';
import { travellingOps } from '../graph/travelling-ops.ts';
import type { Op } from '../spec/op.ts';

/** What takes values of any dtype as they are; collectives round by themselves, where they add. */
const moving: ReadonlySet<Op> = new Set<Op>([
  'constant',
  'cast',
  'where',
  'reshape',
  'permute',
  'expand',
  'slice',
  'pad',
  'concat',
  'gather',
  'indexSelect',
  ...travellingOps,
  'pageOut',
  'pageIn',
]);

/**
 * Has a compute op on f16 or bf16 work on f32 values, and rounds its result: these dtypes are for
 * storage and communication. `apply` makes the op. Undefined for an op that needs no such care.
 */
export function computeInFloat32(
  node: Node,
  inputs: readonly Node[],
  apply: (inputs: readonly Node[]) => Node,
): Node | undefined {
  if (moving.has(node.op) || !inputs.some(isLow)) return undefined;
  const result = apply(inputs.map((input) => (isLow(input) ? cast(input, 'f32') : input)));
  return isLow(node) ? cast(result, node.dtype) : result;
}

function isLow({ dtype }: Node): boolean {
  return dtype === 'f16' || dtype === 'bf16';
}
