import type { ProcessGroup, TypedBytes } from '@shardwise/core/spec';
import type { ReceivedMessage } from './ring-task.ts';

type Recorder = (
  operation: ReceivedMessage['operation'],
  bytes: number,
  buffer: TypedBytes,
) => void;

/** A group that tells a recorder what came from other ranks, except what all-reduces add up. */
export function recordedGroup(group: ProcessGroup, record: Recorder): ProcessGroup {
  /** The share of a buffer with a part for each rank that is of other ranks. */
  const ofOthers = ({ bytes }: TypedBytes): number =>
    (bytes.byteLength * (group.size - 1)) / group.size;
  return {
    specificationVersion: 1,
    rank: group.rank,
    size: group.size,
    async recv(buffer, from, options) {
      await group.recv(buffer, from, options);
      record('recv', buffer.bytes.byteLength, buffer);
    },
    async allGather(input, output, options) {
      await group.allGather(input, output, options);
      record('allGather', ofOthers(output), output);
    },
    async allToAll(input, output, options) {
      await group.allToAll(input, output, options);
      record('allToAll', ofOthers(output), output);
    },
    async reduceScatter(input, output, op, options) {
      await group.reduceScatter(input, output, op, options);
      record('reduceScatter', ofOthers(input), output);
    },
    async split(color, key, options) {
      const part = await group.split(color, key, options);
      return part && recordedGroup(part, record);
    },
    send: (buffer, to, options) => group.send(buffer, to, options),
    allReduce: (buffer, op, options) => group.allReduce(buffer, op, options),
    broadcast: (buffer, root, options) => group.broadcast(buffer, root, options),
    reduce: (buffer, root, op, options) => group.reduce(buffer, root, op, options),
    gather: (input, output, root, options) => group.gather(input, output, root, options),
    scatter: (input, output, root, options) => group.scatter(input, output, root, options),
    barrier: (options) => group.barrier(options),
    close: () => group.close(),
  };
}
