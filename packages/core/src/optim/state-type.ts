import { formatShape, sameShape } from '../shape.ts';
import type { ValueType } from '../spec/dtype.ts';
import { CheckpointError } from '../spec/errors.ts';
import { type Extent, extentOfWhole } from '../tensor/extent.ts';
import type { Tensor } from '../tensor/tensor.ts';

/** What a tensor of an optimizer's state is, and how it lies on the ranks. */
export interface StateType extends ValueType {
  /**
   * Which region of the whole it is, without the padding behind. Default: the region of the parameter, where
   * it has that shape.
   */
  readonly extent?: Extent;
  /** Mesh axes whose ranks each have a value of their own. Default: as the parameter. */
  readonly varyingOver?: readonly string[];
  /** What ranks of another number begin with where each had an f32 value of its own. Default: they can't load it. */
  readonly otherwise?: 'mean';
}

/** The same, with what was left to the defaults. */
export type SavedType = StateType & Required<Pick<StateType, 'extent' | 'varyingOver'>>;

/**
 * How what is kept of a parameter under `name` lies. Throws CheckpointError for another shape than that of
 * this rank's part, of which nobody says where it lies.
 */
export function savedTypeOf(name: string, type: StateType, part: Tensor): SavedType {
  const { varyingOver = part.varyingOver } = type;
  if (type.extent !== undefined) return { ...type, extent: type.extent, varyingOver };
  if (sameShape(type.shape, part.shape)) return { ...type, extent: part.extent, varyingOver };
  if (part.shardedOver.length === 0) {
    return { ...type, extent: extentOfWhole(type.shape), varyingOver };
  }
  throw new CheckpointError(
    {
      asked: `the place of ${name} of shape ${formatShape(type.shape)}`,
      found: `it belongs to a part of shape ${formatShape(part.shape)} of a parameter that ranks share out`,
      todo: 'Use an optimizer whose states have the shape of the parameter or an extent of their own, or a strategy that does not share out the parameter',
    },
    { name, shape: type.shape, part: part.shape },
  );
}
