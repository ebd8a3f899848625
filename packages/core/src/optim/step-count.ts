import { type HostArray, hostArray } from '../serialization/host-array.ts';
import { CheckpointError } from '../spec/errors.ts';
import { toBytes } from '../tensor/host-data.ts';

/** Encodes the number of updates of a parameter as PyTorch does: as an f32 scalar. */
export function encodeStepCount(steps: number): HostArray {
  return hostArray('f32', [], toBytes(Float32Array.of(steps)));
}

/** Decodes a number of updates. Throws CheckpointError for anything but a count. */
export function decodeStepCount({ dtype, bytes }: HostArray): number {
  const { byteLength, byteOffset, buffer } = bytes;
  const value =
    dtype === 'f32' && byteLength === 4
      ? new DataView(buffer, byteOffset, 4).getFloat32(0, true)
      : Number.NaN;
  if (Number.isSafeInteger(value) && value >= 0) return value;
  throw new CheckpointError(
    {
      asked: 'load the step of a parameter',
      found: `a ${dtype} of ${byteLength} bytes (${value})`,
      todo: 'Use an f32 scalar that counts steps',
    },
    { dtype, byteLength },
  );
}
