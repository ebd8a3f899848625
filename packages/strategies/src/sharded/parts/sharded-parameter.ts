import {
  asVarying,
  type Node,
  noGrad,
  type Parameter,
  partOf,
  Tensor,
} from '@shardwise/core/extend';
import { StandInParameter } from '../../parameters/stand-in-parameter.ts';
import type { GradientGroup } from './gradient-group.ts';
import type { ShardedPart } from './sharded-part.ts';

/**
 * A parameter of which this rank updates a part. The forward pass of its unit reads one whole, which is gathered once
 * for the unit. An expression elsewhere gathers a whole of its own, and its gradient is reduced with the rest of the
 * parameter's gradient.
 */
export class ShardedParameter extends StandInParameter {
  readonly #part: ShardedPart;
  readonly #group: GradientGroup;
  /** The whole that the latest pass has gathered for stages of other ranks. Null if it has gathered none. */
  lastGatheredForStage: Node | null = null;

  /** `original` is the parameter that is sharded. */
  constructor(part: ShardedPart, original: Parameter, group: GradientGroup) {
    super(original);
    this.#part = part;
    this.#group = group;
  }

  override get part(): ShardedPart {
    return this.#part;
  }

  /** Makes a leaf for this pass alone, at which the backward pass ends. Shape: padded -> that of the original. */
  leafOf(padded: Node): Node {
    const leaf = new Tensor(this.#part.wholeFrom(padded)).detach().node;
    this.#group.watch(this.#part, leaf);
    return leaf;
  }

  override wholeOf(part: Tensor): Tensor {
    const own = noGrad(() => this.#part.fromParts(this.#part.gatherParts(part)));
    return this.layerParameter?.wholeOf(own) ?? own;
  }

  override partOf(whole: Tensor): Tensor {
    const { axis, sharding, place } = this.#part;
    const own = this.layerParameter?.partOf(whole) ?? whole;
    return partOf(asVarying(own, axis), sharding, place);
  }

  override readForStage(): Node {
    this.lastGatheredForStage = this.#part.collect();
    return this.leafOf(this.lastGatheredForStage);
  }

  protected override readOutsideForward(): Node {
    return this.leafOf(this.#part.collectExact());
  }
}
