import { rankState } from '../ambient.ts';
import { axisFault, describe } from '../graph/axis-faults.ts';
import { unset } from '../graph/axis-types.ts';
import type { Node } from '../graph/node.ts';
import { targetOf } from '../graph/updated-leaves.ts';
import { axisOf } from '../mesh.ts';
import { currentSession } from '../rank.ts';
import { ConfigError, describeValue } from '../spec/errors.ts';
import * as option from '../base/option-rules.ts';
import type { AxisType } from '../spec/op.ts';
import type { TensorHandle } from './handle.ts';

/** How a value lies on each mesh axis, by the name of the axis. null withdraws a declaration. */
export type DeclaredAxisTypes = Readonly<Record<string, AxisType | null>>;

const axisType = option.oneOf<AxisType>('replicate', 'invariant', 'varying', 'partial');

/**
 * Declares how a tensor lies on axes of the mesh, from now on. Expressions of it then have types, and an
 * expression whose value or gradient would be wrong on several ranks is an error at its line. Use it for leaves
 * (parameters, inputs), and for expressions whose type cannot be inferred because they depend on the rank's
 * number. For other expressions it checks the type. `name` is their name in errors. Throws ConfigError for an
 * axis that the mesh does not have and for an unknown type, and LayoutError if the tensor is known to be of
 * another type.
 *
 * ```ts fragment
 * declareAxisTypes(weight, { dp: 'replicate', tp: 'varying' }, 'up.weight');
 * ```
 */
export function declareAxisTypes<T extends TensorHandle>(
  tensor: T,
  types: DeclaredAxisTypes,
  name?: string,
): T {
  for (const [axis, type] of Object.entries(types)) requireType(axis, type);
  const { contents } = tensor;
  const nodes = contents.op === 'assign' ? [contents, targetOf(contents)] : [contents];
  for (const node of nodes) {
    declare(node, types, name);
    if (name !== undefined) rankState.axisClaims.set(node, name);
  }
  return tensor;
}

function declare(node: Node, types: DeclaredAxisTypes, name = 'a tensor'): void {
  for (const [axis, type] of Object.entries(types)) {
    const known = (node.axisTypes ?? unset).on(axis);
    if (known === type) continue;
    if (type === null) {
      const left = node.axisTypes?.without(axis) ?? unset;
      node.axisTypes = left === unset ? null : left;
      continue;
    }
    if (known !== 'unset' && known !== 'uniform') {
      throw axisFault({
        op: 'declareAxisTypes',
        axis,
        inputs: [node],
        of: `of ${name} as ${type} on the axis '${axis}'`,
        found: `it is ${describe(node, axis)}`,
        todo: 'Declare a value once, as what it is, or make another one of it by a collective',
      });
    }
    node.axisTypes = (node.axisTypes ?? unset).with(axis, type);
  }
}

function requireType(axis: string, type: unknown): void {
  axisOf(currentSession().mesh, axis);
  if (type === null || axisType.fits(type)) return;
  throw new ConfigError(
    {
      asked: `a tensor that is ${describeValue(type)} on the axis '${axis}'`,
      found: 'no type of an axis',
      todo: `Use ${axisType.expected}`,
    },
    { axis, type },
  );
}
