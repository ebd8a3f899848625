import type { ValueType } from '@shardwise/core/spec';
import type { GroupedOperand, GroupedProduct } from '../../program/work/grouped-product.ts';
import type { Dataflow } from '../../program/dataflow.ts';
import { packingOf, viewOf } from './product-views.ts';
import type { GroupedStep } from '../../program/product-instructions.ts';
import { inputAt, valueAt } from '../../program/instruction.ts';
import type { ProductKind } from '../../program/work/product-kinds.ts';

/**
 * Describes a grouped product. `storedValues` makes sure that each operand lies in memory without gaps, or is rounded
 * from a value that does.
 */
export function groupedProductOf(
  step: GroupedStep,
  values: readonly ValueType[],
  flow: Dataflow,
): GroupedProduct {
  const operandAt = (index: number): GroupedOperand => {
    const id = inputAt(step, index);
    const view = viewOf(id, values, flow);
    if (view === undefined) throw new RangeError(`input ${index} of ${step.op} is not in memory`);
    return { value: view.root, packing: packingOf(id, view, values) };
  };
  const [rows = 0, depth = 0] = valueAt(values, inputAt(step, 0)).shape;
  const [groups = 0] = valueAt(values, inputAt(step, 2)).shape;
  return {
    op: step.op,
    kind: kindOf(step, values),
    left: operandAt(0),
    right: operandAt(1),
    counts: operandAt(2).value,
    result: step.output,
    rows,
    groups,
    depth,
    columns: step.shape.at(-1) ?? 0,
    transposeB: step.op === 'groupedMatmul' && step.params.transposeB,
    rounds: step.params.rounds === true,
  };
}

function kindOf(step: GroupedStep, values: readonly ValueType[]): ProductKind {
  if (valueAt(values, inputAt(step, 0)).dtype !== 'bf16') return 'f32 to f32';
  return step.dtype === 'bf16' ? 'bf16 to bf16' : 'bf16 to f32';
}
