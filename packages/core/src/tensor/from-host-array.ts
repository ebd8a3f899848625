import { inputNode } from '../graph/create-node.ts';
import type { HostArray } from '../serialization/host-array.ts';
import { elementCount, formatShape } from '../base/shape.ts';
import { dtypes } from '../spec/dtype.ts';
import { describeValue, DTypeError, ShapeError } from '../spec/errors.ts';
import { Tensor } from './tensor.ts';

/**
 * A tensor with a copy of the values of an array of a state dict. Throws ShapeError if the number of bytes does not fit
 * the shape, and DTypeError for a value that is not a HostArray. Shape: -> array.shape.
 */
export function fromHostArray(array: HostArray): Tensor {
  const given: unknown = array;
  if (typeof given !== 'object' || given === null || !('bytes' in given && 'dtype' in given)) {
    throw new DTypeError({
      asked: 'a tensor over a HostArray',
      found: describeValue(given),
      todo: 'Give what stateDict() or loadTensorFile() has under a name',
    });
  }
  const { dtype, shape, bytes } = array;
  const byteLength = elementCount(shape) * dtypes[dtype].bytes;
  if (bytes.byteLength !== byteLength) {
    throw new ShapeError(
      {
        asked: `a ${dtype} tensor of shape ${formatShape(shape)} (${byteLength} bytes)`,
        found: `${bytes.byteLength} bytes`,
        todo: 'Give as many bytes as the shape has',
      },
      { shape, bytes: bytes.byteLength },
    );
  }
  return new Tensor(inputNode(shape, dtype, { kind: 'host', bytes: bytes.slice() }));
}
