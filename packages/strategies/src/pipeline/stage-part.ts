import {
  type HostData,
  type Node,
  ParameterPart,
  type ParameterPartOptions,
  type Shape,
} from '@shardwise/core/extend';

/**
 * A parameter of a stage: all of it on the rank of the stage, and on the others its shape alone, which never has
 * contents, gradient or states.
 */
export class StagePart extends ParameterPart {
  readonly isHere: boolean;

  /** `data` is null where another rank has the stage. */
  constructor(data: HostData | null, shape: Shape, options: ParameterPartOptions) {
    super(data, shape, options);
    this.isHere = data !== null;
  }

  override store(value: Node): this {
    return this.isHere ? super.store(value) : this;
  }

  override async realize(): Promise<this> {
    return this.isHere ? super.realize() : this;
  }
}
