import { conv2dOutputSize } from '../../graph/infer-contract.ts';
import { formatShape } from '../../base/shape.ts';
import { ShapeError } from '../../spec/errors.ts';
import { stack } from '../../tensor/create.ts';
import type { Tensor } from '../../tensor/tensor.ts';

/** The distances between windows, and between the elements of a window. */
export interface Windows {
  readonly stride: readonly [number, number];
  readonly dilation: readonly [number, number];
}

/**
 * Returns the values of each element of a window in all windows. Elements are ordered row by row. Throws ShapeError if
 * no window fits. Shape: x [N, C, H, W] -> [R S, N, C, H', W'].
 */
export function shiftsOf(
  operation: string,
  x: Tensor,
  window: readonly [number, number],
  { stride, dilation }: Windows,
): Tensor {
  const params = { stride, padding: [0, 0], dilation, groups: 1 } as const;
  const [, , height = 0, width = 0] = x.shape;
  const rows = conv2dOutputSize(params, 0, height, window[0]);
  const columns = conv2dOutputSize(params, 1, width, window[1]);
  if (rows < 1 || columns < 1) throw noWindow(operation, x, window, [rows, columns]);
  const shifts: Tensor[] = [];
  for (let row = 0; row < window[0]; row++) {
    for (let column = 0; column < window[1]; column++) {
      const [top, left] = [row * dilation[0], column * dilation[1]];
      const band = x.slice(2, top, top + (rows - 1) * stride[0] + 1, stride[0]);
      shifts.push(band.slice(3, left, left + (columns - 1) * stride[1] + 1, stride[1]));
    }
  }
  return stack(shifts);
}

function noWindow(
  operation: string,
  { shape }: Tensor,
  window: readonly number[],
  output: readonly number[],
): ShapeError {
  return new ShapeError(
    {
      asked: `${operation} of shape ${formatShape(shape)} (with its padding) with a kernel of ${formatShape(window)}`,
      found: `an output of ${output.map((size) => Math.max(0, size)).join(' × ')}`,
      todo: 'Use a larger input, a smaller kernel or dilation, or more padding',
    },
    { shape, window },
  );
}
