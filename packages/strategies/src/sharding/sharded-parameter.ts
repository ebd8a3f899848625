import {
  currentSession,
  type Extent,
  GradientSum,
  type HostData,
  type Node,
  noGrad,
  type PageStore,
  Parameter,
  partOfExtent,
  type Shape,
  Tensor,
} from '@shardwise/core';
import { type Cut, rangeOf, wholeOf } from './cut.ts';

export interface ShardedParameterOptions {
  readonly cut: Cut;
  /** The mesh axis whose ranks hold one part each. */
  readonly axis: string;
  /** Which part this rank updates. */
  readonly part: number;
  readonly requiresGrad: boolean;
  /** The parameter that is cut, which may be a part itself. */
  readonly original: Parameter;
}

/**
 * A parameter of which this rank updates one part. To an optimizer it is that part; while the
 * forward pass of its module runs it is the whole.
 */
export abstract class ShardedParameter extends Parameter {
  readonly cut: Cut;
  readonly axis: string;
  readonly part: number;
  /** What it was cut from; its contents are freed. */
  readonly original: Parameter;
  /** Of the whole parameter, of this rank's batches alone. */
  readonly local: GradientSum = new GradientSum();
  #shown: Node | null = null;

  /** `data` is what this rank keeps. */
  constructor(data: HostData, shape: Shape, options: ShardedParameterOptions) {
    super(data, shape);
    this.cut = options.cut;
    this.axis = options.axis;
    this.part = options.part;
    this.original = options.original;
    if (!options.requiresGrad) this.requiresGrad_(false);
  }

  override get node(): Node {
    return this.#shown ?? this.partNode;
  }

  /** Of the leaf, whatever expression stands for it. */
  override get requiresGrad(): boolean {
    return this.contents.requiresGrad;
  }

  override get shardedOver(): readonly string[] {
    return [...this.original.shardedOver, this.axis];
  }

  /** What this rank keeps of the values that forward reads; `contents` is what is updated. */
  get stored(): Node {
    return this.contents;
  }

  /** The rest of this rank's part is padding. */
  override get extent(): Extent {
    const [start, stop] = rangeOf(this.cut, this.part);
    return partOfExtent(this.original.extent, start, stop);
  }

  /** Has expressions read `whole` from now on; with null, this rank's part. */
  show(whole: Node | null): void {
    this.#shown = whole;
  }

  /** Shape: -> part. */
  abstract get partNode(): Node;

  /** The parts of all ranks. Shape: -> padded. */
  abstract collect(): Node;

  /** The parts as an optimizer sees them. A collective, where the ranks keep parts. Shape: -> padded. */
  fullNode(): Node {
    return this.collect();
  }

  /** What is averaged over the ranks, of the gradient of this rank's batches. Shape: whole -> whole. */
  abstract gradientToReduce(gradient: Node): Node;

  /** Shape: this rank's part of the average. */
  abstract takeReduced(part: Node): void;

  /** Has the gradient of this rank's batches wait for a later reduction. Shape: whole. */
  accumulateLocal(gradient: Node): void {
    this.local.add(gradient);
  }

  /** Adds what has waited in `local`. Shape: whole -> whole. */
  protected withLocal(gradient: Node): Node {
    const waiting = this.local.take();
    if (waiting === null) return gradient;
    return noGrad(() => new Tensor(waiting).add(new Tensor(gradient))).node;
  }

  /** Also what waits to be reduced over the ranks. */
  override get keptGradients(): readonly Node[] {
    const { node } = this.local;
    return node === null ? super.keptGradients : [...super.keptGradients, node];
  }

  /** Shape: padded -> whole. */
  wholeFrom(padded: Node): Node {
    return noGrad(() => wholeOf(new Tensor(padded), this.cut)).node;
  }

  /** Also what waits to be reduced over the ranks. */
  override pageGradient(name: string, store: PageStore): void {
    super.pageGradient(name, store);
    this.local.pages = { store: currentSession().numberOf(store), name: `${name} local` };
  }

  override zeroGrad(): void {
    super.zeroGrad();
    this.local.clear();
  }
}
