import {
  currentSession,
  GradientSum,
  type HostData,
  type Node,
  noGrad,
  type PageStore,
  ParameterPart,
  partOfExtent,
  type Shape,
  Tensor,
} from '@shardwise/core';
import { type Cut, rangeOf, wholeOf } from './cut.ts';

export interface ShardedPartOptions {
  readonly cut: Cut;
  /** The mesh axis whose ranks have one part each. */
  readonly axis: string;
  /** Which of the parts this is. */
  readonly index: number;
  readonly requiresGrad: boolean;
  /** What is cut, which may be a part itself. */
  readonly of: Tensor;
}

/**
 * The part that this rank updates of a ShardedParameter. Kinds of it differ in what else the rank keeps:
 * contents and gradients of its part, or of the whole.
 */
export abstract class ShardedPart extends ParameterPart {
  readonly cut: Cut;
  readonly axis: string;
  readonly index: number;
  /** Of the whole parameter, of this rank's batches alone. */
  readonly local: GradientSum = new GradientSum();

  /** `data` is what this rank keeps. The rest of the part is padding. */
  constructor(
    data: HostData,
    shape: Shape,
    { cut, axis, index, requiresGrad, of }: ShardedPartOptions,
  ) {
    super(data, shape, {
      extent: partOfExtent(of.extent, ...rangeOf(cut, index)),
      shardedOver: [...of.shardedOver, axis],
    });
    this.cut = cut;
    this.axis = axis;
    this.index = index;
    if (!requiresGrad) this.requiresGrad_(false);
  }

  override get shape(): Shape {
    return this.cut.partShape;
  }

  /** Of the leaf, whatever expression stands for it. */
  override get requiresGrad(): boolean {
    return this.contents.requiresGrad;
  }

  /** What this rank keeps of the values that forward reads; `contents` is what is updated. */
  get stored(): Node {
    return this.contents;
  }

  /** The parts of all ranks, as forward passes read them. Shape: -> padded. */
  abstract collect(): Node;

  /** The parts of all ranks, as an optimizer sees them. Shape: -> padded. */
  collectExact(): Node {
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
