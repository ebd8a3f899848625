import { allGather, type Node, noGrad, type Parameter, Tensor } from '@shardwise/core/extend';
import { asVarying, partOf } from '../layout/equal-parts.ts';
import { StandInParameter } from '../stand-in-parameter.ts';
import type { GradientGroup } from './gradient-group.ts';
import type { ShardedPart } from './sharded-part.ts';

/**
 * A parameter of which this rank updates a part. Forward passes of its unit read one whole that they
 * collected for all of the unit; expressions elsewhere each make it whole, and what it owes them is
 * reduced with the rest of its gradient.
 */
export class ShardedParameter extends StandInParameter {
  readonly #part: ShardedPart;
  readonly #group: GradientGroup;
  /** What the latest pass has collected for stages of other ranks; null where it has not. */
  latestLent: Node | null = null;

  /** `original` is what is sharded. */
  constructor(part: ShardedPart, original: Parameter, group: GradientGroup) {
    super(original);
    this.#part = part;
    this.#group = group;
  }

  override get part(): ShardedPart {
    return this.#part;
  }

  /** A node of this pass alone, at which backward ends. Shape: padded -> what was sharded. */
  leafOf(padded: Node): Node {
    const leaf = new Tensor(this.#part.wholeFrom(padded)).detach().node;
    this.#group.watch(this.#part, leaf);
    return leaf;
  }

  override wholeOf(part: Tensor): Tensor {
    const own = noGrad(() => this.#part.fromParts(allGather(part, this.#part.axis, 0)));
    return this.layerParameter?.wholeOf(own) ?? own;
  }

  override partOf(whole: Tensor): Tensor {
    const { axis, sharding, place } = this.#part;
    const own = this.layerParameter?.partOf(whole) ?? whole;
    return partOf(asVarying(own, axis), sharding, place);
  }

  override lent(): Node {
    this.latestLent = this.#part.collect();
    return this.leafOf(this.latestLent);
  }

  protected override elsewhere(): Node {
    return this.leafOf(this.#part.collectExact());
  }
}
