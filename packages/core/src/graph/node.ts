import { kindOf } from '../dtype.ts';
import type { DType, Shape } from '../spec/dtype.ts';
import type { Op, OpParams } from '../spec/op.ts';
import { currentScope, rankState, within } from '../ambient.ts';
import { CallSite, tracesCallSites } from './call-site.ts';
import { type AxisTypes, uniform } from './axis-types.ts';
import { infer } from './infer.ts';
import { joinAxisTypes } from './join-axis-types.ts';
import type { Page } from '../paging/page.ts';
import type { Storage } from './storage.ts';

/** Receives the gradient of a leaf during backward. */
export interface GradientSink {
  /** A backward pass begins that comes to the leaf. */
  expect?(): void;
  /** Once in a pass; never where the pass fails on its way, or no gradient flows. */
  accumulate(gradient: Node): void;
}

export interface HostValue {
  readonly kind: 'host';
  readonly bytes: Uint8Array;
  /** Whether nobody else has the bytes, so that they can be freed before they are garbage. */
  readonly owned?: boolean;
}

/** What a realized node holds. */
export type NodeValue =
  | HostValue
  | { readonly kind: 'device'; readonly storage: Storage }
  | { readonly kind: 'paged'; readonly page: Page }
  | { readonly kind: 'freed'; readonly by: string }
  /** The run that was to compute it failed. */
  | { readonly kind: 'failed'; readonly error: unknown };

/** A part of a forward pass whose values backward may make again instead of having them kept. */
export interface Region {
  /** What backward reads in the place of a node that was made in this region. */
  substitute(node: Node): Node;
}

/** What nodes made now belong to. */
export function currentRegion(): Region | null {
  return currentScope().region;
}

/** Nodes made inside `body` belong to `region`. Throws ConfigError for a body that returns a promise. */
export function inRegion<T>(region: Region | null, body: () => T): T {
  return within('a forward pass', { region }, body);
}

/** Nodes made from now on have larger ids. */
export function newestNodeId(): number {
  return rankState.nextNodeId - 1;
}

/**
 * Programs begin in era 0; each recomputation of a backward pass begins another one. Equal
 * expressions of different eras are not merged, nor are they computed in one segment.
 */
export function currentEra(): number {
  return rankState.era;
}

/** Nodes made from now on are of this era. */
export function setEra(value: number): void {
  rankState.era = value;
}

/**
 * One value of the lazy graph. What it computes never changes; `value` appears when it is realized.
 * Ids ascend in program order, so sorting by id is a topological sort that is the same on all ranks.
 */
export class Node<K extends Op = Op> {
  readonly id: number = rankState.nextNodeId++;
  readonly op: K;
  readonly params: OpParams[K];
  readonly shape: Shape;
  readonly dtype: DType;
  /** Emptied when the node is realized and its gradient has been taken, so that old steps are not kept alive. */
  inputs: readonly Node[];
  requiresGrad: boolean;
  value: NodeValue | null = null;
  /** On leaves that train. */
  sink: GradientSink | null = null;
  /** Leaves that stay on the device once they are there: parameters, buffers, optimizer state. */
  resident = false;
  /** Whether something frees its memory that knows when nobody reads it any more: a gradient's holder. */
  hasOwner = false;
  /** Whether a gradient stands in it that has no gradient itself, and that nobody detached. */
  ofGradient = false;
  /** How it lies on the axes of the mesh; null where nobody has said anything. */
  axisTypes: AxisTypes | null = null;
  /** What lets the garbage collector see the size of its memory on the device. */
  weight: ArrayBuffer | null = null;
  /** Nodes with a smaller id than this that still read this leaf would see a later value. */
  updatedAt = 0;
  /**
   * Where user code asked for it: on nodes of which a run may find out that they can't be computed, and on
   * those of programs that are new.
   */
  site: CallSite | null = null;
  /** Where backward may make it again. */
  readonly region: Region | null = currentScope().region;
  readonly era: number = rankState.era;
  /** Scratch of graph walks: a walk owns a node whose mark is the walk's number. */
  mark = 0;
  slot = 0;

  constructor(
    op: K,
    params: OpParams[K],
    inputs: readonly Node[],
    shape: Shape,
    dtype: DType,
    requiresGrad: boolean,
  ) {
    this.op = op;
    this.params = params;
    this.inputs = inputs;
    this.shape = shape;
    this.dtype = dtype;
    this.requiresGrad = requiresGrad;
    if (tracesCallSites()) this.site = new CallSite(op);
  }
}

/** A number for `mark` that no earlier walk used. */
export function newWalk(): number {
  return rankState.nextWalk++;
}

/** False inside noGrad. */
export function isGradEnabled(): boolean {
  return currentScope().isGradEnabled;
}

/** Nodes made inside `body` do not take part in gradients. Throws ConfigError for a body that returns a promise. */
export function noGrad<T>(body: () => T): T {
  return within('noGrad', { isGradEnabled: false }, body);
}

/** Shared by all nodes without parameters, so that signatures recognise them at once. */
export const none: OpParams['add'] = Object.freeze({});

/**
 * A node of inferred shape and dtype. Throws ShapeError, DTypeError or LayoutError where the op does not take its
 * inputs. What inference does not know of `axisTypes`, such as what a collective gives, its maker says.
 */
export function createNode<K extends Op>(
  op: K,
  params: OpParams[K],
  inputs: readonly Node[],
  axisTypes?: AxisTypes | null,
): Node<K> {
  const { shape, dtype } = infer[op](params, inputs);
  const inGradient = isGradEnabled() && kindOf(dtype) === 'float';
  let requiresGrad = false;
  let ofGradient = false;
  // Most values have no types, or all are made of numbers: then nothing is joined.
  let types: AxisTypes | null = uniform;
  let isTyped = false;
  for (const input of inputs) {
    if (inGradient) {
      requiresGrad ||= input.requiresGrad;
      ofGradient ||= input.ofGradient;
    }
    if (input.axisTypes === null) types = null;
    else if (input.axisTypes !== uniform) isTyped = true;
  }
  if (axisTypes !== undefined) types = axisTypes;
  else if (isTyped) types = joinAxisTypes({ op, params, inputs, dtype, inGradient });
  const node = new Node(op, params, inputs, shape, dtype, requiresGrad);
  node.ofGradient = ofGradient;
  node.axisTypes = types;
  return node;
}

/** A leaf that holds `value`. */
export function inputNode(
  shape: Shape,
  dtype: DType,
  value: NodeValue,
  requiresGrad = false,
): Node<'input'> {
  const node = new Node('input', none, [], shape, dtype, requiresGrad);
  node.value = value;
  return node;
}

/** Narrows a node by its op. */
export function isOp<K extends Op>(node: Node, op: K): node is Node<K> {
  return node.op === op;
}
