import type { ValueType } from '@shardwise/core/spec';
import type { GroupedOperand, GroupedProduct } from '../../program/work/grouped-product.ts';
import type { Dataflow } from '../../program/dataflow.ts';
import { packingOf, viewOf } from './product-views.ts';
import type { GroupedInstruction } from '../../program/product-instructions.ts';
import { inputAt, valueAt } from '../../program/instruction.ts';
import type { ProductKind } from '../../program/work/product-kinds.ts';

/**
 * Describes a grouped product. `storedValues` makes sure that each operand lies in memory without gaps, or is rounded
 * from a value that does.
 */
export function groupedProductOf(
  instruction: GroupedInstruction,
  values: readonly ValueType[],
  flow: Dataflow,
): GroupedProduct {
  const operandAt = (index: number): GroupedOperand => {
    const id = inputAt(instruction, index);
    const view = viewOf(id, values, flow);
    if (view === undefined)
      throw new RangeError(`input ${index} of ${instruction.op} is not in memory`);
    return { value: view.root, packing: packingOf(id, view, values) };
  };
  const [rows = 0, depth = 0] = valueAt(values, inputAt(instruction, 0)).shape;
  const [groups = 0] = valueAt(values, inputAt(instruction, 2)).shape;
  return {
    op: instruction.op,
    kind: kindOf(instruction, values),
    left: operandAt(0),
    right: operandAt(1),
    counts: operandAt(2).value,
    result: instruction.output,
    rows,
    groups,
    depth,
    columns: instruction.shape.at(-1) ?? 0,
    transposeB: instruction.op === 'groupedMatmul' && instruction.params.transposeB,
    rounds: instruction.params.rounds === true,
  };
}

function kindOf(instruction: GroupedInstruction, values: readonly ValueType[]): ProductKind {
  if (valueAt(values, inputAt(instruction, 0)).dtype !== 'bf16') return 'f32 to f32';
  return instruction.dtype === 'bf16' ? 'bf16 to bf16' : 'bf16 to f32';
}
