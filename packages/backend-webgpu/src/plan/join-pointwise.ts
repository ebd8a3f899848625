import { pointwise } from '../kernels/pointwise.ts';
import type { BufferCount } from './buffer-count.ts';
import type { Kernel } from '../emit/kernel.ts';
import type { Reads } from './reads.ts';
import type { Values } from '../program/values.ts';

/**
 * The most values that one kernel makes. Its text grows with them, and so does the time that a driver takes to compile
 * it.
 */
const MAX_ROOTS = 8;

export interface JoinOptions {
  /** The most buffers that one kernel may have. */
  readonly mostBuffers: number;
  readonly buffers: BufferCount;
}

/**
 * Joins each pointwise kernel to an earlier one of equally many elements. A value that both read is then read once, and
 * a value that one makes for the other stays in a register.
 */
export function joinPointwise(
  values: Values,
  kernels: readonly Kernel[],
  reads: Reads,
  { mostBuffers, buffers }: JoinOptions,
): Kernel[] {
  const joined: Kernel[] = [];
  for (const kernel of kernels) {
    const position = placeToJoin(joined, kernel, reads, { mostBuffers, buffers });
    const earlier = position === undefined ? undefined : joined[position];
    if (
      position === undefined ||
      earlier?.pointwise === undefined ||
      kernel.pointwise === undefined
    ) {
      joined.push(kernel);
      continue;
    }
    const roots = [...earlier.pointwise.roots, ...kernel.pointwise.roots];
    const own = new Set(roots);
    const all = [...new Set([...earlier.reads, ...kernel.reads])].filter((id) => !own.has(id));
    joined[position] = pointwise(values, roots, all, `${earlier.label} ${kernel.label}`);
  }
  return joined;
}

/** The position of the last kernel that this one can join. No kernel after it may make a value that this one reads. */
function placeToJoin(
  earlier: readonly Kernel[],
  kernel: Kernel,
  reads: Reads,
  { mostBuffers, buffers }: JoinOptions,
): number | undefined {
  if (kernel.pointwise === undefined) return undefined;
  const needed = new Set(kernel.reads);
  for (let position = earlier.length - 1; position >= 0; position--) {
    const candidate = earlier[position];
    if (candidate === undefined) return undefined;
    const sources = candidate.writes.filter((id) => needed.has(id));
    if (candidate.pointwise?.count === kernel.pointwise.count) {
      const together = new Set([
        ...candidate.reads,
        ...candidate.writes,
        ...kernel.reads,
        ...kernel.writes,
      ]);
      const roots = candidate.pointwise.roots.length + kernel.pointwise.roots.length;
      const shares = candidate.reads.some((id) => needed.has(id)) || sources.length > 0;
      const isSame = kernel.pointwise.roots.every((root) =>
        sources.every((id) => reads.ofInputs(root).get(id) !== 'any element'),
      );
      if (shares && isSame && buffers(together) <= mostBuffers && roots <= MAX_ROOTS)
        return position;
    }
    if (sources.length > 0) return undefined;
  }
  return undefined;
}
