import { IndexError } from '@shardwise/core/spec';
import type { Instruction, PrimitiveOp } from '@shardwise/core/spec';
import type { LongIntegers } from './long-integers.ts';
import { at, NdArray } from './nd-array.ts';

type IndexOp = 'gather' | 'scatterAdd' | 'scatter' | 'indexSelect' | 'indexAdd';

const indexOps: ReadonlySet<string> = new Set<IndexOp & PrimitiveOp>([
  'gather',
  'scatterAdd',
  'scatter',
  'indexSelect',
  'indexAdd',
]);

function isIndexing(
  instruction: Instruction,
): instruction is Extract<Instruction, { op: IndexOp }> {
  return indexOps.has(instruction.op);
}

/** Throws IndexError if an instruction's index is out of range. `inputs` are x, the indices, and so on. */
export function checkIndices(
  instruction: Instruction,
  number: number,
  inputs: readonly (NdArray | LongIntegers)[],
): void {
  const [x, indices] = inputs;
  if (!isIndexing(instruction) || x === undefined || !(indices instanceof NdArray)) return;
  const size = at(x.shape, instruction.params.dim);
  const element = indices.values.findIndex((index) => index < 0 || index >= size);
  if (element < 0) return;
  throw IndexError.ofRun({
    op: instruction.op,
    instruction: number,
    index: at(indices.values, element),
    element,
    size,
    updated: false,
  });
}
