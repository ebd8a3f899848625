import type { Node, Parameter, Tensor } from '@shardwise/core/extend';
import { StandInParameter } from '../parameters/stand-in-parameter.ts';
import type { StagePart } from './stage-part.ts';

/** The rank of a mesh axis that has a stage. */
export interface StageOwner {
  readonly axis: string;
  readonly rank: number;
}

/**
 * A parameter that only the rank of one stage has. All ranks build expressions of it, and only that rank can compute
 * them.
 */
export class StageParameter extends StandInParameter {
  readonly owner: StageOwner;
  readonly #part: StagePart;

  /** `original` is the parameter that this one replaces. */
  constructor(part: StagePart, original: Parameter, owner: StageOwner) {
    super(original);
    this.#part = part;
    this.owner = owner;
  }

  override get part(): StagePart {
    return this.#part;
  }

  /** The gradient on the rank that has the stage. Null on other ranks. */
  override get gradientNode(): Node | null {
    return this.#part.gradientNode;
  }

  override setGradientNode(node: Node): void {
    this.#part.setGradientNode(node);
  }

  /** Works on the rank of the stage, which has all of the parameter. Shape: part -> whole. */
  override wholeOf(part: Tensor): Tensor {
    return this.layerParameter?.wholeOf(part) ?? part;
  }

  override partOf(whole: Tensor): Tensor {
    return this.layerParameter?.partOf(whole) ?? whole;
  }

  override lent(): Node {
    return this.#part.node;
  }

  protected override elsewhere(): Node {
    return this.#part.node;
  }
}
