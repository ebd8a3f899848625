import {
  allGather,
  DividedParameter,
  type Node,
  noGrad,
  type Parameter,
  type Shape,
  Tensor,
  withoutValues,
} from '@shardwise/core';
import { CutParameter } from '../tensor-parallel/cut-parameter.ts';
import { paddedOf, wholeOf } from './cut.ts';
import type { GradientGroup } from './gradient-group.ts';
import type { ShardedPart } from './sharded-part.ts';

/**
 * A parameter of which this rank updates a part. Forward passes of its unit read one whole that they
 * collected for all of the unit; expressions elsewhere each make it whole, and what it owes them is
 * reduced with the rest of its gradient.
 */
export class ShardedParameter extends DividedParameter {
  /** Where layers compute with a part that other axes share out: what that is a part of. */
  readonly cutParameter: CutParameter | null;
  readonly #part: ShardedPart;
  readonly #group: GradientGroup;
  #shown: Node | null = null;

  /** `original` is what is cut; its contents are freed. */
  constructor(part: ShardedPart, original: Parameter, group: GradientGroup) {
    super(original.shape, part);
    this.cutParameter = original instanceof CutParameter ? original : null;
    this.#part = part;
    this.#group = group;
  }

  override get part(): ShardedPart {
    return this.#part;
  }

  override get node(): Node {
    this.checkNotReplaced();
    const own = this.#shown ?? withoutValues(() => this.leafOf(this.#part.collectExact()));
    return this.cutParameter?.seen(own) ?? own;
  }

  override get shape(): Shape {
    return this.cutParameter?.shape ?? super.shape;
  }

  override get dtype(): Tensor['dtype'] {
    return this.#shown?.dtype ?? super.dtype;
  }

  /** Has expressions read `own` from now on; with null, each a whole of its own. Shape: what was cut. */
  show(own: Node | null): void {
    this.#shown = own;
  }

  /** A node of this pass alone, at which backward ends. Shape: padded -> what was cut. */
  leafOf(padded: Node): Node {
    const leaf = new Tensor(this.#part.wholeFrom(padded)).detach().node;
    this.#group.watch(this.#part, leaf);
    return leaf;
  }

  override wholeOf(part: Tensor): Tensor {
    const own = noGrad(() => wholeOf(allGather(part, this.#part.axis, 0), this.#part.cut));
    return this.cutParameter?.wholeOf(own) ?? own;
  }

  override partOf(whole: Tensor): Tensor {
    const { cut, index } = this.#part;
    const [rows = 0] = cut.partShape;
    const own = this.cutParameter?.partOf(whole) ?? whole;
    return paddedOf(own, cut).slice(0, index * rows, (index + 1) * rows);
  }
}
