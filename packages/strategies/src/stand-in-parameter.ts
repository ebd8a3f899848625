import {
  DividedParameter,
  type Node,
  type Parameter,
  type Tensor,
  withoutValues,
} from '@shardwise/core/extend';
import { StoredPart } from './stored-part.ts';
import { LayerParameter } from './tensor-parallel/layer-parameter.ts';

/**
 * A parameter that a strategy has put in the place of another one: forward passes read what the strategy
 * shows them, expressions elsewhere something of their own.
 */
export abstract class StandInParameter extends DividedParameter {
  /** The parameter of a layer that other axes share out, where this one stands for a part of such; else null. */
  readonly layerParameter: LayerParameter | null;
  #shown: (() => Node) | null = null;

  /** `original` is what stood there; its contents are freed. */
  constructor(original: Parameter) {
    super(original.shape, original.part);
    const stoodFor = original instanceof StandInParameter ? original.layerParameter : null;
    this.layerParameter = original instanceof LayerParameter ? original : stoodFor;
  }

  override get node(): Node {
    this.checkNotReplaced();
    const own = withoutValues(() => this.#shown?.() ?? this.elsewhere());
    return this.layerParameter?.seen(own) ?? own;
  }

  override get shape(): Tensor['shape'] {
    return this.layerParameter?.shape ?? super.shape;
  }

  override get dtype(): Tensor['dtype'] {
    return this.#shown?.().dtype ?? super.dtype;
  }

  /**
   * Has expressions read what `own` gives, from now on; with null, each reads something of its own. Shape: what stood
   * there.
   */
  show(own: (() => Node) | null): void {
    this.#shown = own;
  }

  /** What all that reads it on this rank has under it. */
  get leaves(): readonly Node[] {
    const { part } = this;
    return part instanceof StoredPart ? [part.contents, part.stored] : [part.contents];
  }

  /**
   * What another rank reads of it whose stage has none of its own, at which its gradient is to arrive: what a forward pass
   * reads here. Shape: what stood there.
   */
  abstract lent(): Node;

  /** What one expression outside of forward passes reads, at which backward ends. Shape: what stood there. */
  protected abstract elsewhere(): Node;
}
