import {
  DividedParameter,
  type Node,
  type Parameter,
  type Tensor,
  withoutValues,
} from '@shardwise/core/extend';
import { StoredPart } from './stored-part.ts';
import { LayerParameter } from './layer-parameter.ts';

/**
 * A parameter that a strategy has put in the place of another one. Forward passes read the node that the strategy has
 * made for them. Expressions outside of forward passes read a node of their own.
 */
export abstract class StandInParameter extends DividedParameter {
  /**
   * If this parameter stands for the part of a layer that other axes shard, the parameter of this layer. Otherwise null.
   */
  readonly layerParameter: LayerParameter | null;
  #inForward: (() => Node) | null = null;

  /** `original` is the parameter that this one replaces. Its contents are freed. */
  constructor(original: Parameter) {
    super(original.shape, original.part);
    const stoodFor = original instanceof StandInParameter ? original.layerParameter : null;
    this.layerParameter = original instanceof LayerParameter ? original : stoodFor;
  }

  override get node(): Node {
    this.checkNotReplaced();
    const own = withoutValues(() => this.#inForward?.() ?? this.readOutsideForward());
    return this.layerParameter?.seen(own) ?? own;
  }

  override get shape(): Tensor['shape'] {
    return this.layerParameter?.shape ?? super.shape;
  }

  override get dtype(): Tensor['dtype'] {
    return this.#inForward?.().dtype ?? super.dtype;
  }

  /**
   * Makes expressions read the node that `own` returns, from now on. With null, each reads a node of its own. Shape:
   * that of the original.
   */
  useInForward(own: (() => Node) | null): void {
    this.#inForward = own;
  }

  /** The leaves below everything on this rank that reads the parameter. */
  get leaves(): readonly Node[] {
    const { part } = this;
    return part instanceof StoredPart ? [part.contents, part.stored] : [part.contents];
  }

  /**
   * Returns the node whose value is sent to a rank whose stage does not have the parameter. Its value is that of a
   * forward pass here, and the gradient of the other rank arrives at it. Shape: that of the original.
   */
  abstract readForStage(): Node;

  /**
   * Returns the node that one expression outside of forward passes reads, at which the backward pass ends. Shape: that
   * of the original.
   */
  protected abstract readOutsideForward(): Node;
}
