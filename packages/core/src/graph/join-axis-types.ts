import { kindOf } from '../dtype.ts';
import type { AxisType } from '../spec/op.ts';
import { type NewNode, partialFault, storedFault, tornFault } from './axis-faults.ts';
import { type AxisMix, AxisTypes, type KnownAxisType, uniform, unset } from './axis-types.ts';
import type { Node } from './node.ts';
import { opFacts } from './op-facts.ts';

/**
 * How the result of an op lies on the axes of the mesh, where its inputs have types; null where nothing is known.
 * Collectives have a table of their own (collective-axis-types.ts). Throws LayoutError where the result, or a
 * gradient, would mean something else than that of the same op on one rank: see docs/decisions/0013-axis-types.md.
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

/** Whether the op of the ranks' terms is the terms of the op of the sum. */
function keepsSums(node: NewNode, axis: string): boolean {
  const { linearIn } = opFacts[node.op];
  if (!isLinearHere(node)) return false;
  const groups = linearIn === 'all' ? [[...node.inputs.keys()]] : linearIn;
  return groups.some((group) =>
    node.inputs.every((input, index) =>
      group.includes(index) ? isTerm(input, axis) : isSame(input, axis, node.inGradient),
    ),
  );
}

/** Ops that round are not linear, nor is one that puts another number than 0 around a value. */
function isLinearHere({ op, params, dtype }: NewNode): boolean {
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

/** Zeros are a term of any sum. */
function isZero({ op, params, inputs: [input] }: Node): boolean {
  if (op === 'constant') return 'value' in params && params.value === 0;
  const isMoved = op === 'expand' || op === 'reshape' || op === 'permute' || op === 'slice';
  return isMoved && input !== undefined && isZero(input);
}

/**
 * What a leaf is declared to be stays true; elsewhere an update is what is stored. What gradient is owed to a leaf that
 * trains only a declaration says, as none goes on to what was stored.
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

/** What earlier updates stored, which are not made yet, is no declaration. */
function leafOf(target: Node): Node {
  const [earlier] = target.inputs;
  return target.op === 'assign' && earlier !== undefined ? leafOf(earlier) : target;
}

/** Whether contents that are `given` may lie in a leaf that is `declared`. */
function mayStand(given: KnownAxisType, declared: AxisType): boolean {
  if (given === 'unset' || given === 'uniform' || given === declared) return true;
  return declared !== 'partial' && (given === 'replicate' || given === 'invariant');
}
