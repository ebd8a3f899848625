import {
  type HostData,
  type Node,
  ParameterPart,
  type ParameterPartOptions,
  type Shape,
} from '@shardwise/core/extend';
import { parameterOnOtherRank } from './pass-errors.ts';

export interface StagePartOptions extends ParameterPartOptions {
  /** Whether this rank has the stage. */
  readonly isHere: boolean;
}

/**
 * The part of a parameter that a rank of a pipeline keeps: the whole on the rank of the stage, and on the others only
 * the shape, without contents, gradient or states.
 */
export class StagePart extends ParameterPart {
  readonly isHere: boolean;

  /** `data` is null if another rank has the stage, and if the whole never exists in one place (constructSharded). */
  constructor(data: HostData | null, shape: Shape, { isHere, ...options }: StagePartOptions) {
    super(data, shape, options);
    this.isHere = isHere;
    if (!isHere) this.contents.value = parameterOnOtherRank(shape, options.layout);
  }

  override store(value: Node): this {
    return this.isHere ? super.store(value) : this;
  }

  override async realize(): Promise<this> {
    return this.isHere ? super.realize() : this;
  }
}
