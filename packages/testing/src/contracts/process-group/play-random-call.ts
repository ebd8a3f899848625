import type { ProcessGroup, TypedBytes } from '@shardwise/core/spec';
import { inputOf, type RandomCall, type RandomOperation } from './random-call.ts';
import { typed, zeros } from './typed-values.ts';

/** Moves a buffer to memory that the group treats in a special way. */
export type Place = (buffer: TypedBytes) => TypedBytes;

/**
 * Plays a call and returns the bytes of this rank's result. Throws if the call changes an input that is not also its
 * output.
 */
export async function playRandomCall(
  group: ProcessGroup,
  call: RandomCall,
  place: Place,
): Promise<Uint8Array | undefined> {
  const values = inputOf(call, group.size, group.rank);
  const input = place(typed(call.dtype, values, { byteOffset: call.byteOffset }));
  const isApart = !call.inPlace || call.operation === 'allToAll';
  const output = await (isApart ? playApart : playInPlace)[call.operation](
    { group, call, place },
    input,
  );
  const before = typed(call.dtype, values).bytes;
  if (isApart && !before.every((byte, index) => byte === input.bytes[index])) {
    throw new Error(`${call.operation} changed its input on rank ${group.rank}`);
  }
  return output?.bytes.slice();
}

interface Playing {
  readonly group: ProcessGroup;
  readonly call: RandomCall;
  readonly place: Place;
}

type Play = (playing: Playing, input: TypedBytes) => Promise<TypedBytes | undefined>;

const playApart: Record<RandomOperation, Play> = {
  allReduce: async (playing, input) => {
    const output = outputOf(playing, playing.call.elements);
    await playing.group.allReduce(output, playing.call.op, { input });
    return output;
  },
  broadcast: async (playing, input) => {
    const output = outputOf(playing, playing.call.elements);
    await playing.group.broadcast(output, playing.call.root, { input });
    return output;
  },
  reduce: async (playing, input) => {
    const { group, call } = playing;
    const output = outputOf(playing, call.elements);
    await group.reduce(output, call.root, call.op, { input });
    return output;
  },
  allGather: async (playing, input) => {
    const output = outputOf(playing, playing.call.elements * playing.group.size);
    await playing.group.allGather(input, output);
    return output;
  },
  reduceScatter: async (playing, input) => {
    const output = outputOf(playing, playing.call.elements);
    await playing.group.reduceScatter(input, output, playing.call.op);
    return output;
  },
  allToAll: async (playing, input) => {
    const { rank } = playing.group;
    const { splits } = playing.call;
    const inputSplits = splits[rank] ?? [];
    const outputSplits = splits.map((row) => row[rank] ?? 0);
    const output = outputOf(
      playing,
      outputSplits.reduce((sum, part) => sum + part, 0),
    );
    await playing.group.allToAll(input, output, { inputSplits, outputSplits });
    return output;
  },
  gather: async (playing, input) => {
    const { group, call } = playing;
    const isRoot = group.rank === call.root;
    const output = isRoot ? outputOf(playing, call.elements * group.size) : undefined;
    await group.gather(input, output, call.root);
    return output;
  },
  scatter: async (playing, input) => {
    const { group, call } = playing;
    const output = outputOf(playing, call.elements);
    await group.scatter(group.rank === call.root ? input : undefined, output, call.root);
    return output;
  },
};

const playInPlace: Record<RandomOperation, Play> = {
  ...playApart,
  allReduce: async ({ group, call }, buffer) => {
    await group.allReduce(buffer, call.op);
    return buffer;
  },
  broadcast: async ({ group, call }, buffer) => {
    await group.broadcast(buffer, call.root);
    return buffer;
  },
  reduce: async ({ group, call }, buffer) => {
    await group.reduce(buffer, call.root, call.op);
    return buffer;
  },
  allGather: async (playing, input) => {
    const output = outputAround(playing, input);
    await playing.group.allGather(partOf(playing, output), output);
    return output;
  },
  reduceScatter: async (playing, input) => {
    const output = partOf(playing, input);
    await playing.group.reduceScatter(input, output, playing.call.op);
    return output;
  },
  gather: async (playing, input) => {
    const { group, call } = playing;
    if (group.rank !== call.root) return playApart.gather(playing, input);
    const output = outputAround(playing, input);
    await group.gather(partOf(playing, output), output, call.root);
    return output;
  },
  scatter: async (playing, input) => {
    const { group, call } = playing;
    if (group.rank !== call.root) return playApart.scatter(playing, input);
    const output = partOf(playing, input);
    await group.scatter(input, output, call.root);
    return output;
  },
};

function outputOf({ call, place }: Playing, elements: number): TypedBytes {
  return place(zeros(call.dtype, elements));
}

/** Makes an output with one part for each rank. The part of this rank contains `input`. */
function outputAround(playing: Playing, input: TypedBytes): TypedBytes {
  const output = outputOf(playing, playing.call.elements * playing.group.size);
  partOf(playing, output).bytes.set(input.bytes);
  return output;
}

/** Returns this rank's part of a buffer. */
function partOf({ group }: Playing, { bytes, dtype }: TypedBytes): TypedBytes {
  const partBytes = bytes.byteLength / group.size;
  return {
    bytes: bytes.subarray(group.rank * partBytes, (group.rank + 1) * partBytes),
    dtype,
  };
}
