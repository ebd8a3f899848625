import { axisFault, describe } from '../graph/axis-faults.ts';
import { type KnownAxisType, unset } from '../graph/axis-types.ts';
import type { Node } from '../graph/node.ts';
import type { AxisType } from '../spec/op.ts';
import { gradientType } from '../graph/collective-axis-types.ts';

/**
 * Throws LayoutError if the gradient of a leaf does not have the types that follow from the leaf's axis types. A value
 * of any type fits where partial is expected, and a value that is the same on all ranks where varying is expected.
 */
export function checkGradientTypes(leaf: Node, gradient: Node): void {
  if (leaf.axisTypes === null || gradient.axisTypes === leaf.axisTypes) return;
  for (const [axis, type] of leaf.axisTypes.byAxis) {
    const given = (gradient.axisTypes ?? unset).on(axis);
    if (fits(given, gradientType[type])) continue;
    throw axisFault({
      op: 'backward()',
      axis,
      inputs: [leaf],
      of: `with a gradient of ${describe(leaf, axis)}`,
      found: `the gradient is ${given} there, and not ${gradientType[type]}: ranks would update the value differently`,
      todo: `Check what was made of it, such as data of which each rank of '${axis}' has its own: declare that as varying`,
    });
  }
}

function fits(given: KnownAxisType, owed: AxisType): boolean {
  if (given === 'varying') return owed === 'varying' || owed === 'partial';
  return given !== 'partial' || owed === 'partial';
}
