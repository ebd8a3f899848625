import { chunksOf } from '../layout/chunks.ts';
import { takeChunks } from '../layout/take-chunks.ts';
import { ownPlace } from '../rank.ts';
import { type HostArray, hostArray, type HostArrays } from '../serialization/host-array.ts';
import { elementCount, formatShape, sameShape } from '../base/shape.ts';
import { dtypes, type ValueType } from '../spec/dtype.ts';
import { CheckpointError } from '../spec/errors.ts';
import { toBytes } from '../tensor/host-data.ts';
import type { Tensor } from '../tensor/tensor.ts';
import type { SavedType } from './state-type.ts';
import { decodeStepCount } from './step-count.ts';

/** The name under which the count of steps is saved among the tensors. */
export const stepName = 'step';

/** Copies the contents of a tensor to the host. */
export async function readWhole(tensor: Tensor): Promise<HostArray> {
  const { dtype, shape } = tensor;
  return hostArray(dtype, shape, toBytes(await tensor.data()).slice());
}

/** Throws CheckpointError for arrays that do not have the types of this rank's part of a state. */
export function checkSavedState(typeOf: (name: string) => SavedType, arrays: HostArrays): void {
  const { [stepName]: step, ...tensors } = arrays;
  if (step !== undefined) decodeStepCount(step);
  for (const [name, array] of Object.entries(tensors)) check(name, array, typeOf(name));
}

/** Cuts this rank's part from a whole state. Throws CheckpointError for an array that is not of its type. */
export function partOfState(typeOf: (name: string) => SavedType, arrays: HostArrays): HostArrays {
  const { [stepName]: step, ...tensors } = arrays;
  const parts = Object.entries(tensors).map(([name, array]) => {
    const { shape, dtype, layout, wholeShape } = typeOf(name);
    check(name, array, { shape: wholeShape, dtype });
    const chunks = chunksOf(wholeShape, layout, ownPlace);
    const elementBytes = dtypes[dtype].bytes;
    const bytes = new Uint8Array(elementCount(shape) * elementBytes);
    bytes.set(takeChunks(array.bytes, wholeShape, chunks, elementBytes));
    return [name, hostArray(dtype, shape, bytes)] as const;
  });
  return { ...(step === undefined ? {} : { [stepName]: step }), ...Object.fromEntries(parts) };
}

function check(name: string, array: HostArray, { shape, dtype }: ValueType): void {
  const byteLength = elementCount(shape) * dtypes[dtype].bytes;
  const { byteLength: found } = array.bytes;
  if (array.dtype === dtype && sameShape(array.shape, shape) && found === byteLength) return;
  throw new CheckpointError(
    {
      asked: `load ${name} of shape ${formatShape(shape)} (${dtype}, ${byteLength} bytes)`,
      found: `shape ${formatShape(array.shape)} (${array.dtype}, ${found} bytes)`,
      todo: 'Load the state of an optimizer of the same model',
    },
    { name, shape, found: array.shape },
  );
}
