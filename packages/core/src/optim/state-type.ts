import { replicated } from '../layout/layout.ts';
import { formatShape, sameShape } from '../base/shape.ts';
import type { Shape, ValueType } from '../spec/dtype.ts';
import { CheckpointError } from '../spec/errors.ts';
import type { Layout } from '../spec/layout.ts';
import type { Tensor } from '../tensor/tensor.ts';

/** The type of a tensor of an optimizer's state, and its layout on the ranks. */
export interface StateType extends ValueType {
  /**
   * How the tensor lies on the mesh: which part of a whole it is, without the padding at its end. Default: the layout
   * of the parameter, if the tensor has the shape of this rank's part.
   */
  readonly layout?: Layout;
  /** The shape of the whole. Default: that of the parameter. */
  readonly wholeShape?: Shape;
  /**
   * Says what ranks begin with if a state of f32 values that vary over ranks is loaded on another number of ranks: with
   * the mean of the values. Default: another number of ranks cannot load the state.
   */
  readonly otherwise?: 'mean';
}

/** A StateType with all defaults filled in. */
export type SavedType = StateType & Required<Pick<StateType, 'layout' | 'wholeShape'>>;

/**
 * Completes the type of the state `name`. Throws CheckpointError if the parameter is sharded over ranks, and the state has
 * neither the shape of this rank's part nor a layout.
 */
export function savedTypeOf(name: string, type: StateType, part: Tensor): SavedType {
  const { layout = part.layout, wholeShape = part.wholeShape } = type;
  if (type.layout !== undefined || sameShape(type.shape, part.shape)) {
    return { ...type, layout, wholeShape };
  }
  if (part.shardedOver.length === 0) {
    const { varying = [] } = part.layout;
    return { ...type, layout: { ...replicated(type.shape), varying }, wholeShape: type.shape };
  }
  throw new CheckpointError(
    {
      asked: `the place of ${name} of shape ${formatShape(type.shape)}`,
      found: `it belongs to a part of shape ${formatShape(part.shape)} of a parameter that is sharded over ranks`,
      todo: 'Use an optimizer whose states have the shape of the parameter or their own layout, or a strategy that keeps parameters whole',
    },
    { name, shape: type.shape, part: part.shape },
  );
}
