import {
  type HostData,
  type Node,
  ParameterPart,
  type ParameterPartOptions,
  type Shape,
} from '@shardwise/core/extend';
import { parameterElsewhere } from './pass-errors.ts';

export interface StagePartOptions extends ParameterPartOptions {
  /** Whether this rank has the stage. */
  readonly isHere: boolean;
}

/**
 * A parameter of a stage: all of it on the rank of the stage, and on the others its shape alone, which never has
 * contents, gradient or states.
 */
export class StagePart extends ParameterPart {
  readonly isHere: boolean;

  /** Without `data` where another rank has the stage, and where all that there is of it is a part of it (constructSharded). */
  constructor(data: HostData | null, shape: Shape, { isHere, ...options }: StagePartOptions) {
    super(data, shape, options);
    this.isHere = isHere;
    if (!isHere) this.contents.value = parameterElsewhere(shape, options.layout);
  }

  override store(value: Node): this {
    return this.isHere ? super.store(value) : this;
  }

  override async realize(): Promise<this> {
    return this.isHere ? super.realize() : this;
  }
}
