import { withOwnGradient } from './own-gradient.ts';
import { Tensor } from './tensor.ts';

/**
 * The same value. The gradients of its uses are added up before they go on to `x`. A loop whose iterations each join the
 * value of the one before adds up the gradients one by one, instead of keeping those of all iterations. Shape: N -> N.
 */
export function joinGradients({ node }: Tensor): Tensor {
  const joined = withOwnGradient(
    [node],
    () => node,
    (gradient) => [gradient],
  );
  return new Tensor(joined);
}
