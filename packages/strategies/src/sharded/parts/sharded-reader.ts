import {
  asVarying,
  type Node,
  noGrad,
  type ParameterPart,
  partOf,
  Tensor,
  withoutValues,
} from '@shardwise/core/extend';
import type { PartReader, StandInPlacement } from '../../parameters/stand-in-placement.ts';
import type { GradientGroup } from './gradient-group.ts';
import type { ShardedPart } from './sharded-part.ts';

/** The placement of a parameter of which this rank updates a part. */
export type ShardedPlacement = StandInPlacement<ShardedReader>;

/**
 * Reads a parameter of which this rank updates a part. The forward pass of its unit reads one whole, which is gathered once
 * for the unit. An expression elsewhere gathers a whole of its own, and its gradient is reduced with the rest of the
 * parameter's gradient.
 */
export class ShardedReader implements PartReader {
  readonly sharded: ShardedPart;
  readonly #group: GradientGroup;
  /** The whole that the latest pass has gathered for stages of other ranks. Null if it has gathered none. */
  lastGatheredForStage: Node | null = null;

  constructor(sharded: ShardedPart, group: GradientGroup) {
    this.sharded = sharded;
    this.#group = group;
  }

  get part(): ParameterPart {
    return this.sharded.leaf;
  }

  /** Makes a leaf for this pass alone, at which the backward pass ends. Shape: padded -> whole. */
  leafOf(padded: Node): Node {
    const leaf = new Tensor(this.sharded.wholeFrom(padded)).detach().node;
    this.#group.watch(this.sharded, leaf);
    return leaf;
  }

  wholeOf(part: Node): Node {
    const { sharded } = this;
    const whole = (): Tensor => sharded.fromParts(sharded.gatherParts(new Tensor(part)));
    return withoutValues(() => noGrad(whole)).node;
  }

  partOf(whole: Node): Node {
    const { axis, sharding, place } = this.sharded;
    const own = (): Tensor => partOf(asVarying(new Tensor(whole), axis), sharding, place);
    return withoutValues(() => noGrad(own)).node;
  }

  readForStage(): Node {
    this.lastGatheredForStage = this.sharded.collect();
    return this.leafOf(this.lastGatheredForStage);
  }

  readOutsideForward(): Node {
    return this.leafOf(this.sharded.collectExact());
  }
}
