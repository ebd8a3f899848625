import { layoutOver, type Module, shardOf, type Tensor } from '@shardwise/core/extend';
import { evenSharding } from './even-sharding.ts';
import type { AxisPlace } from './parallel-style.ts';

/** How the ranks of an axis share out the product of a layer: each has a part of its outputs, or of its inputs. */
export interface SharedProduct {
  readonly axis: string;
  readonly of: 'outputs' | 'inputs';
  /**
   * Returns this rank's part of values that are divided as the weight is, such as the scales of its blocks. No gradient flows
   * through it. Shape: [out, N] -> this rank's part of it.
   */
  partOf(whole: Tensor): Tensor;
}

/** Returns how a style shares out the products of a layer. `heads`: as for evenSharding. */
export function sharedProductOver(
  { axis, size }: AxisPlace,
  of: SharedProduct['of'],
  heads?: readonly number[],
): SharedProduct {
  return {
    axis,
    of,
    partOf(whole) {
      const sharding = evenSharding({
        name: 'values of a weight',
        shape: whole.shape,
        dim: of === 'outputs' ? 0 : 1,
        size,
        ...(heads === undefined ? {} : { heads }),
      });
      return shardOf(whole, layoutOver(axis, sharding, whole.ndim));
    },
  };
}

/**
 * A linear layer that computes its product itself: with more terms than x Wᵀ, such as those of an adapter of low rank, or
 * from a weight in few bits. The parameters of an adapter have PEFT's names: `lora_A.weight` [r, in], `lora_B.weight`
 * [out, r], and `lora_magnitude_vector` [out].
 */
export interface AdaptedProduct {
  /**
   * The product without the bias. With parts of the inputs, the result is a partial sum. Shape: x [.., in], or this
   * rank's part of it -> [.., out], or this rank's part of it.
   */
  sharedProduct(x: Tensor, shared: SharedProduct | null): Tensor;
}

/** Whether a layer computes its product itself. */
export function isAdapted<M extends Module>(module: M): module is M & AdaptedProduct {
  return 'sharedProduct' in module && typeof module.sharedProduct === 'function';
}
