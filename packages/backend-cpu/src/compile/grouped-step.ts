import type { ValueType } from '@shardwise/core/spec';
import type { GroupedProduct } from '../products/grouped-product.ts';
import type { Dataflow } from './dataflow.ts';
import { inputAt, type Step, type StepMap, valueAt } from './step.ts';

/** Products of rows in groups, which machine code makes where it makes products at all. */
export type GroupedStep = StepMap['groupedMatmul'] | StepMap['groupedMatmulWeight'];

export function isGroupedStep(step: Step): step is GroupedStep {
  return step.op === 'groupedMatmul' || step.op === 'groupedMatmulWeight';
}

/** Its operands lie in memory, in one piece each: `storedValues` sees to it. */
export function groupedProductOf(
  step: GroupedStep,
  values: readonly ValueType[],
  flow: Dataflow,
): GroupedProduct {
  const placeOf = (index: number): number => {
    const root = flow.root(inputAt(step, index));
    if (root === undefined) throw new RangeError(`input ${index} of ${step.op} is not in memory`);
    return root;
  };
  const [rows = 0, depth = 0] = valueAt(values, inputAt(step, 0)).shape;
  const [groups = 0] = valueAt(values, inputAt(step, 2)).shape;
  return {
    op: step.op,
    left: placeOf(0),
    right: placeOf(1),
    counts: placeOf(2),
    result: step.output,
    rows,
    groups,
    depth,
    columns: step.shape.at(-1) ?? 0,
    transposeB: step.op === 'groupedMatmul' && step.params.transposeB,
  };
}
