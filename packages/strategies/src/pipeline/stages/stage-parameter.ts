import {
  type DType,
  type HostData,
  type Layout,
  type Parameter,
  ParameterPart,
  type Shape,
  TensorStateError,
} from '@shardwise/core/extend';
import { type PartReader, standIn, StandInPlacement } from '../../parameters/stand-in-placement.ts';

/** The rank of a mesh axis that has a stage. */
export interface StageOwner {
  readonly axis: string;
  readonly rank: number;
}

/** Options of `stageParameter`. */
export interface StageParameterOptions {
  readonly dtype: DType;
  readonly requiresGrad: boolean;
  readonly wholeShape: Shape;
  /** The layout of the part, which only one rank of the axis of stages has. */
  readonly layout: Layout;
  /** Whether this rank has the stage. */
  readonly isHere: boolean;
}

/**
 * Makes the parameter that stands for `original`, which only the rank of one stage has. All ranks build expressions of
 * it, and only that rank can compute them. The others have its shape, without contents, gradient or states. `data` is
 * null if another rank has the stage, and if the whole never exists in one place (constructSharded). Shape: data that of
 * the part of `original`.
 */
export function stageParameter(
  data: HostData | null,
  original: Parameter,
  { isHere, ...options }: StageParameterOptions,
): Parameter {
  const { shape } = original.part;
  const elsewhere = isHere ? {} : { elsewhere: parameterOnOtherRank(shape, options.layout) };
  const part = new ParameterPart(data, shape, { ...options, ...elsewhere });
  return standIn(original, new StandInPlacement(readerOf(part), original));
}

/** Reads a part of which the rank of the stage has all. */
function readerOf(part: ParameterPart): PartReader {
  return {
    part,
    readOutsideForward: () => part.node,
    readForStage: () => part.node,
    wholeOf: (own) => own,
    partOf: (whole) => whole,
  };
}

/** The error in the place of a parameter that the rank of another stage has. */
function parameterOnOtherRank(shape: Shape, { only }: Layout): TensorStateError {
  return new TensorStateError(
    {
      asked: `a parameter of a pipeline, of shape [${shape.join(', ')}]`,
      found: `only rank ${only?.rank} of '${only?.axis}' has it, because that rank has its stage`,
      todo: 'Call forward() of what parallelize() returned, not of the module; to read it, call module.stateDict() on all ranks',
    },
    { ...only },
  );
}
