import type { DType, Shape } from '../spec/dtype.ts';
import type { Op, OpParams } from '../spec/op.ts';
import type { AxisTypes } from './axis-types.ts';
import type { CallSite } from './call-site.ts';
import type { Page } from '../paging/page.ts';
import type { Storage } from './storage.ts';

/** Receives the gradient of a leaf during backward. */
export interface GradientSink {
  /** A backward pass begins that comes to the leaf, from a loss, or null where it begins with a gradient. */
  expect?(loss: Node | null): void;
  /** Called once in a pass; not where the pass fails before, or no gradient flows. */
  accumulate(gradient: Node): void;
}

/** The largest number that a size becomes, and where that was declared. */
export interface SizeLimit {
  readonly max: number;
  readonly site: CallSite;
}

/** A number of rows that a run computes. */
export interface RowCount {
  /** i32 []. */
  readonly count: Node;
  /** The most that it may be. */
  readonly max: number;
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
  /** Forgets what was made again, when a backward pass is over. */
  close(): void;
}

/** From the gradient of a node to those of the inputs that it names; null where none flows. */
export type OwnGradient = (
  gradient: Node,
  inputs: readonly Node[],
  output: Node,
) => readonly (Node | null)[];

/**
 * One value of the lazy graph. What it computes never changes; `value` appears when it is realized.
 * Ids ascend in program order, so sorting by id is a topological sort that is the same on all ranks.
 */
export class Node<K extends Op = Op> {
  readonly id: number;
  readonly op: K;
  readonly params: OpParams[K];
  readonly shape: Shape;
  readonly dtype: DType;
  /** Emptied when the node is realized and its gradient has been taken, so that old steps are not kept alive. */
  inputs: readonly Node[];
  requiresGrad: boolean;
  value: NodeValue | null = null;
  /** What takes the gradient of a leaf that trains. */
  sink: GradientSink | null = null;
  /** Leaves that stay on the device once they are there: parameters, buffers, optimizer state. */
  resident = false;
  /** Whether something frees its memory that knows when nobody reads it any more: a gradient's holder, or a pipeline. */
  hasOwner = false;
  /** Whether a gradient stands in it that has no gradient itself, and that nobody detached. */
  ofGradient = false;
  /** How it lies on the axes of the mesh; null where nobody has said anything. */
  axisTypes: AxisTypes | null = null;
  /** How many rows there are, where only a run knows and the size of dim 0 is NaN. */
  rowCount: RowCount | null = null;
  /** What its sizes were declared to become, by dim. */
  sizeLimits: ReadonlyMap<number, SizeLimit> | null = null;
  /** What lets the garbage collector see the size of its memory on the device. */
  weight: ArrayBuffer | null = null;
  /** Nodes with a smaller id than this that still read this leaf would see a later value. */
  updatedAt = 0;
  /**
   * Where user code asked for the node. Nodes have it whose failure only a run finds, and those of programs
   * that are new.
   */
  site: CallSite | null = null;
  /** The part of a forward pass that the node belongs to; backward may make the node again there. */
  readonly region: Region | null;
  /** Equal expressions of different eras are not merged, as `currentEra` says. */
  readonly era: number;
  /** What changes the gradient of the node, when backward comes to it. */
  gradientHooks: Set<(gradient: Node) => Node> | null = null;
  /** The gradient of an `ownGradient` node, by its inputs but the first. */
  ownGradient: OwnGradient | null = null;
  /** Scratch of graph walks: a walk owns a node whose mark is the walk's number. */
  mark = 0;
  slot = 0;

  constructor(
    id: number,
    region: Region | null,
    era: number,
    op: K,
    params: OpParams[K],
    inputs: readonly Node[],
    shape: Shape,
    dtype: DType,
    requiresGrad: boolean,
  ) {
    this.id = id;
    this.region = region;
    this.era = era;
    this.op = op;
    this.params = params;
    this.inputs = inputs;
    this.shape = shape;
    this.dtype = dtype;
    this.requiresGrad = requiresGrad;
  }
}

/** Narrows a node by its op. */
export function isOp<K extends Op>(node: Node, op: K): node is Node<K> {
  return node.op === op;
}

/** Shared by all nodes without parameters, so that signatures recognise them at once. */
export const none: OpParams['add'] = Object.freeze({});
