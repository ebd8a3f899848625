import { kindOf } from '../base/dtype-kind.ts';
import type { DType } from '../spec/dtype.ts';
import type { AxisType, Op, OpParams } from '../spec/op.ts';
import { type NewNode, partialFault, storedFault, tornFault } from './axis-faults.ts';
import { type AxisMix, AxisTypes, type KnownAxisType, uniform, unset } from './axis-types.ts';
import type { Node } from './node.ts';

/**
 * How the result of an op lies on the axes of the mesh, if its inputs have types. Null if nothing is known.
 * Collectives have a table of their own (collective-axis-types.ts). Throws LayoutError if the result, or a gradient,
 * would not mean what it means for the same op on one rank. See docs/decisions/0013-axis-types.md.
 */
export function joinAxisTypes(node: NewNode): AxisTypes | null {
  if (node.op === 'assign') return stored(node);
  const mix = mixOf(node);
  const types = mix.result ?? joinByAxis(node, mix);
  return types === unset ? null : types;
}

function mixOf({ inputs, inGradient }: NewNode): AxisMix {
  let mix = uniform.mixed(false);
  for (const { axisTypes, requiresGrad } of inputs) {
    mix = mix.with((axisTypes ?? unset).mixed(inGradient && requiresGrad));
  }
  return mix;
}

function joinByAxis(node: NewNode, mix: AxisMix): AxisTypes {
  const types = new Map<string, AxisType>();
  for (const axis of mix.axes) {
    const type = mix.resultOn(axis) ?? partialOn(node, mix, axis);
    if (type !== 'unset' && type !== 'uniform') types.set(axis, type);
  }
  return AxisTypes.of(types, node.inputs.every(isUniformElsewhere) ? 'uniform' : 'unset');
}

function isUniformElsewhere({ axisTypes }: Node): boolean {
  return axisTypes?.elsewhere === 'uniform';
}

function partialOn(node: NewNode, mix: AxisMix, axis: string): AxisType {
  if (!mix.hasPartial(axis)) throw tornFault(node, axis);
  if (!keepsSums(node, axis)) throw partialFault(node, axis);
  return 'partial';
}

/** Whether the op of each rank's term is a term of the op of the sum. */
function keepsSums(node: NewNode, axis: string): boolean {
  const { linearIn } = node;
  if (!isLinear(node.op, node.params, node.dtype)) return false;
  const groups = linearIn === 'all' ? [[...node.inputs.keys()]] : linearIn;
  return groups.some((group) =>
    node.inputs.every((input, index) =>
      group.includes(index) ? isTerm(input, axis) : isSame(input, axis, node.inGradient),
    ),
  );
}

/**
 * Whether an op is linear, with these parameters, in the inputs that its entry says. An op that rounds to integers is
 * not, nor is a pad with non-zeros.
 */
export function isLinear(op: Op, params: OpParams[Op], dtype: DType): boolean {
  if (op === 'cast' || op === 'div') return kindOf(dtype) === 'float';
  return op !== 'pad' || !('value' in params) || params.value === 0;
}

function isTerm(input: Node, axis: string): boolean {
  const type = (input.axisTypes ?? unset).on(axis);
  return type === 'partial' || type === 'unset' || (type === 'uniform' && isZero(input));
}

function isSame(input: Node, axis: string, inGradient: boolean): boolean {
  const type = (input.axisTypes ?? unset).on(axis);
  if (type === 'invariant') return !(inGradient && input.requiresGrad);
  return type !== 'varying' && type !== 'partial';
}

/** Whether a node is made of zeros only, which are a term of any sum. */
export function isZero({ op, params, inputs: [input] }: Node): boolean {
  if (op === 'constant') return 'value' in params && params.value === 0;
  const isMoved = op === 'expand' || op === 'reshape' || op === 'permute' || op === 'slice';
  return isMoved && input !== undefined && isZero(input);
}

/**
 * The types of an update's result. On axes for which the leaf has a declared type, it keeps that type, and the stored
 * value must fit it. On other axes it has the types of the stored value. A leaf that requires a gradient has only its
 * declared types: they say which gradient it gets, and no gradient goes on to the stored value.
 */
function stored({ inputs: [target, value] }: NewNode): AxisTypes | null {
  if (target === undefined || value === undefined) throw new RangeError('assign without value');
  let types = target.requiresGrad ? null : value.axisTypes;
  for (const [axis, type] of (leafOf(target).axisTypes ?? unset).byAxis) {
    const given = (value.axisTypes ?? unset).on(axis);
    if (!mayStand(given, type)) throw storedFault(target, value, axis);
    types = (types ?? unset).with(axis, type);
  }
  return types;
}

/** The leaf that an update writes. Earlier updates that are not computed yet are skipped, as they declare nothing. */
function leafOf(target: Node): Node {
  const [earlier] = target.inputs;
  return target.op === 'assign' && earlier !== undefined ? leafOf(earlier) : target;
}

/** Whether contents of the type `given` may be stored in a leaf of the declared type. */
function mayStand(given: KnownAxisType, declared: AxisType): boolean {
  if (given === 'unset' || given === 'uniform' || given === declared) return true;
  return declared !== 'partial' && (given === 'replicate' || given === 'invariant');
}
