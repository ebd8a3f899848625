import { withOwnGradient } from './own-gradient.ts';
import { Tensor } from './tensor.ts';

/**
 * The same value. The gradients of its uses are added up before they go on to `x`. A loop whose iterations each join the
 * value of the one before adds up the gradients one by one, instead of keeping those of all iterations. `onJoined` is
 * called in the backward pass, when the gradients have been added up. Shape: N -> N.
 */
export function joinGradients({ node }: Tensor, onJoined?: () => void): Tensor {
  const joined = withOwnGradient(
    [node],
    () => node,
    (gradient) => {
      onJoined?.();
      return [gradient];
    },
  );
  return new Tensor(joined);
}
