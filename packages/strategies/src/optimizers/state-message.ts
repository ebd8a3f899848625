import {
  CheckpointError,
  decodeSafetensors,
  encodeSafetensors,
  type HostArrays,
  type ProcessGroup,
} from '@shardwise/core/extend';

/** Larger than the state of any parameter that fits into a rank's memory. */
const MAX_BYTES = 2 ** 36;

/** Sends a parameter's state to another rank. A missing state is sent as no tensors. */
export async function sendState(
  group: ProcessGroup,
  to: number,
  arrays: HostArrays = {},
): Promise<void> {
  const bytes = encodeSafetensors(arrays);
  await group.send(asLength(Float64Array.of(bytes.byteLength)), to);
  await group.send({ bytes, dtype: 'u8' }, to);
}

/** Receives a parameter's state. Undefined if the other rank has none. */
export async function receiveState(
  group: ProcessGroup,
  from: number,
): Promise<HostArrays | undefined> {
  const length = new Float64Array(1);
  await group.recv(asLength(length), from);
  const [byteLength = 0] = length;
  if (!Number.isSafeInteger(byteLength) || byteLength < 0 || byteLength > MAX_BYTES) {
    throw new CheckpointError(
      {
        asked: `the optimizer state of rank ${from}`,
        found: `a length of ${byteLength} bytes`,
        todo: 'Use one version of shardwise on all ranks',
      },
      { from, byteLength },
    );
  }
  const bytes = new Uint8Array(byteLength);
  await group.recv({ bytes, dtype: 'u8' }, from);
  const { tensors } = decodeSafetensors(bytes);
  return Object.keys(tensors).length === 0 ? undefined : tensors;
}

function asLength(values: Float64Array<ArrayBuffer>): {
  readonly bytes: Uint8Array<ArrayBuffer>;
  readonly dtype: 'f64';
} {
  return { bytes: new Uint8Array(values.buffer), dtype: 'f64' };
}
