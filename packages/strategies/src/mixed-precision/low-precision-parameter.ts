import type { Node, Parameter, Tensor } from '@shardwise/core/extend';
import { StandInParameter } from '../parameters/stand-in-parameter.ts';
import type { LowPrecisionPart } from './low-precision-part.ts';

/** A parameter that every rank has whole in f32, and that forward passes read in fewer bits. */
export class LowPrecisionParameter extends StandInParameter {
  readonly #part: LowPrecisionPart;

  constructor(part: LowPrecisionPart, original: Parameter) {
    super(original);
    this.#part = part;
  }

  override get part(): LowPrecisionPart {
    return this.#part;
  }

  override wholeOf(part: Tensor): Tensor {
    return this.layerParameter?.wholeOf(part) ?? part;
  }

  override partOf(whole: Tensor): Tensor {
    return this.layerParameter?.partOf(whole) ?? whole;
  }

  override lent(): Node {
    return this.#part.lowLeaf();
  }

  protected override elsewhere(): Node {
    return this.#part.exactLeaf();
  }
}
