import {
  type HostData,
  type Layout,
  type Node,
  type NodeValue,
  type Parameter,
  ParameterPart,
  type ParameterPartOptions,
  type Shape,
  type Tensor,
  TensorStateError,
} from '@shardwise/core/extend';
import { StandInParameter } from '../../parameters/stand-in-parameter.ts';

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

  override readForStage(): Node {
    return this.#part.node;
  }

  protected override readOutsideForward(): Node {
    return this.#part.node;
  }
}

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

/** The value in the place of a parameter that the rank of another stage has. */
function parameterOnOtherRank(shape: Shape, { only }: Layout): NodeValue {
  const error = new TensorStateError(
    {
      asked: `a parameter of a pipeline, of shape [${shape.join(', ')}]`,
      found: `only rank ${only?.rank} of '${only?.axis}' has it, because that rank has its stage`,
      todo: 'Call forward() of what parallelize() returned, not of the module; to read it, call module.stateDict() on all ranks',
    },
    { ...only },
  );
  return { kind: 'failed', error };
}
