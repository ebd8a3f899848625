import { concat, dtypes, type Tensor } from '@shardwise/core/extend';

/**
 * Sends all buffers of a dtype as one message, and assigns the result. `send` returns the value that all ranks get.
 * Shape of messages: [elements].
 */
export function shareBuffers(buffers: readonly Tensor[], send: (message: Tensor) => Tensor): void {
  for (const dtype of Object.keys(dtypes)) {
    const members = buffers.filter((buffer) => buffer.dtype === dtype);
    const [first] = members;
    if (first === undefined) continue;
    if (members.length === 1) {
      first.assign(send(first));
      continue;
    }
    const arrived = send(
      concat(
        members.map((buffer) => buffer.reshape([buffer.numel])),
        0,
      ),
    );
    let start = 0;
    for (const buffer of members) {
      const { numel, shape } = buffer;
      buffer.assign(arrived.slice(0, start, start + numel).reshape(shape));
      start += numel;
    }
  }
}
