import type { DType, Shape, ValueType } from '../spec/dtype.ts';
import type { Layout } from '../spec/layout.ts';
import type { Op, OpParams } from '../spec/op.ts';
import type { CallIdentity } from '../spec/process-group.ts';
import type { AxisTypes } from './axis-types.ts';
import type { CallSite } from './call-site.ts';
import type { Page } from '../paging/page.ts';
import type { Storage } from './storage.ts';

/** Receives the gradient of a leaf during backward. */
export interface GradientSink {
  /** Called when a backward pass begins that reaches the leaf. `loss` is null if the pass starts from a gradient. */
  expect?(loss: Node | null): void;
  /** Called once in a pass. Not called if the pass fails before, or if no gradient flows to the leaf. */
  accumulate(gradient: Node): void;
}

/** The largest value that a size may have, and the call site that declared it. */
export interface SizeLimit {
  readonly max: number;
  readonly site: CallSite;
}

/** A number of rows that a run computes. */
export interface RowCount {
  /** The node that computes the number. Shape: i32 []. */
  readonly count: Node;
  /** The largest value that the number may have. */
  readonly max: number;
}

export interface HostValue {
  readonly kind: 'host';
  readonly bytes: Uint8Array;
  /** Whether nothing else refers to the bytes, so that they can be freed before the garbage collector finds them. */
  readonly owned?: boolean;
}

/** The value of a realized node, or the reason why there is none. */
export type NodeValue =
  | HostValue
  | { readonly kind: 'device'; readonly storage: Storage }
  | { readonly kind: 'paged'; readonly page: Page }
  | { readonly kind: 'freed'; readonly by: string }
  /** The run that was to compute the node failed. */
  | { readonly kind: 'failed'; readonly error: unknown };

/** An output, and the gradient with which a backward pass starts there. It has the output's shape. */
export interface Seeded {
  readonly output: Node;
  readonly gradient: Node;
}

/** A part of a forward pass whose values may be recomputed in the backward pass instead of being kept. */
export interface Region {
  /** The node that the backward pass reads in the place of a node that was made in this region. */
  substitute(node: Node): Node;
  /** Whether the backward pass makes a node of this region again, instead of reading its value. */
  remakes(node: Node): boolean;
  /** What is kept of the value of a node, if the backward pass makes the node again from that. */
  sourceOf(node: Node): Node | null;
  /** Forgets the recomputed nodes when a backward pass is over. */
  close(): void;
}

/** Makes, from the gradient of a node, the gradients of `inputs`. Null for an input to which no gradient flows. */
export type OwnGradient = (
  gradient: Node,
  inputs: readonly Node[],
  output: Node,
) => readonly (Node | null)[];

/** The parts on the ranks of the mesh of a tensor for which a `distributed` node stands. */
export interface DistributedValue {
  readonly layout: Layout;
  /** This rank's part, or its term of the sum. */
  readonly local: Node;
  /** The node that has the values of the whole: this rank's part if every rank has all of it, or else null. */
  readonly whole: Node | null;
  /**
   * Makes the node of an op, of whose inputs at least one is distributed: redistributes the inputs, and applies the op
   * to the parts. `result` is the type of the whole result.
   */
  apply(op: Op, params: OpParams[Op], inputs: readonly Node[], result: ValueType): Node;
  /** The same values in another layout, moved by the cheapest collectives. */
  redistribute(layout: Layout): Node;
  /** The node that stands for the whole of a tensor in this layout, of which `part` is this rank's. */
  like(part: Node): Node;
  /** The node that stands for the whole gradient of this tensor, of which `part` is this rank's. */
  gradientOf(part: Node): Node;
  /** This rank's part of a gradient of this tensor, in the layout of `gradientOf`. */
  gradientPart(gradient: Node): Node;
  /** The layout, and this rank's part like any tensor. */
  describe(form: 'lines' | 'line'): string;
  /** A hook of this rank's part of the gradient, from one of the whole. */
  hookOf(change: (gradient: Node) => Node): (part: Node) => Node;
  /** Gives the tensor its own gradient, in terms of the whole tensors. `inputs` are those of its `ownGradient` node. */
  useOwnGradient(rule: OwnGradient, inputs: readonly Node[]): void;
}

/**
 * One value of the lazy graph. What it computes never changes. `value` is set when it is realized.
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
  /** Takes the gradient of a leaf that is trained. */
  sink: GradientSink | null = null;
  /** Whether a leaf stays on the device once it is there, as parameters, buffers and optimizer states do. */
  resident = false;
  /** Whether an owner, such as the holder of a gradient or a pipeline, frees the memory after its last read. */
  hasOwner = false;
  /** Whether the value depends on a gradient that is not differentiable and was not detached. */
  ofGradient = false;
  /** Whether a backward pass has come through the node. */
  wasWalked = false;
  /** The number of nodes that were made of this one and that take part in gradients, and were not walked. */
  openUses = 0;
  /** What a collective is, as far as ranks must agree on it. Null for other nodes. */
  identity: CallIdentity | null = null;
  /** Whether a function of the library has made the node, so that the program cannot read it. */
  isOfLibrary = false;
  /**
   * Whether the node is part of a collective that is issued only if something uses it (`collectiveOrder` is 'ifUsed').
   */
  isUnused = false;
  /** How the value lies on the axes of the mesh. Null if nothing is known. */
  axisTypes: AxisTypes | null = null;
  /** The number of rows if only a run knows it. The size of dim 0 is then NaN. */
  rowCount: RowCount | null = null;
  /** The declared limits of sizes, by dim. */
  sizeLimits: ReadonlyMap<number, SizeLimit> | null = null;
  /** Memory of the size of the node's device memory, by which the garbage collector sees that size. */
  weight: ArrayBuffer | null = null;
  /** Nodes with a smaller id than this that still read this leaf would see a later value. */
  updatedAt = 0;
  /**
   * The call site in user code. Nodes have one if their failure is only found in a run. While call sites are traced
   * (traceCallSites), all nodes have one.
   */
  site: CallSite | null = null;
  /** The part of a forward pass that the node belongs to. The backward pass may recompute the node there. */
  readonly region: Region | null;
  /** Equal expressions of different eras are not merged, as `currentEra` says. */
  readonly era: number;
  /** The hooks that may replace the gradient of the node when the backward pass reaches it. */
  gradientHooks: Set<(gradient: Node) => Node> | null = null;
  /** The rule by which an `ownGradient` node makes the gradients of its inputs other than the first. */
  ownGradient: OwnGradient | null = null;
  /** The parts of a tensor that lies on several ranks. Null for a value of this rank alone. */
  distributed: DistributedValue | null = null;
  /** Scratch data of graph walks. If `mark` is the number of a walk, `slot` belongs to that walk. */
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

/** The node that a run computes: this rank's part of a distributed tensor, or else the node itself. */
export function localOf(node: Node): Node {
  return node.distributed?.local ?? node;
}

/** Narrows a node by its op. */
export function isOp<K extends Op>(node: Node, op: K): node is Node<K> {
  return node.op === op;
}

/** The parameters of all ops without parameters. It is one object, so that signatures recognize it at once. */
export const none: OpParams['add'] = Object.freeze({});
