import type { Mesh, MeshAxis, ProcessGroup, TypedBytes } from '@shardwise/core/spec';

/** A message that a rank took part in. */
export interface Message {
  readonly operation: string;
  readonly axis: string;
  /** The bytes of the rank's input or output, whichever is larger. */
  readonly bytes: number;
}

/** A mesh that records what is communicated over its groups, and over parts of them. */
export class RecordingMesh implements Mesh {
  readonly axes: readonly MeshAxis[];
  readonly #mesh: Mesh;
  readonly #note: (message: Message) => void;
  readonly #groups = new Map<string, ProcessGroup>();

  constructor(mesh: Mesh, note: (message: Message) => void) {
    this.axes = mesh.axes;
    this.#mesh = mesh;
    this.#note = note;
  }

  group(axis: string): ProcessGroup {
    const known = this.#groups.get(axis);
    if (known !== undefined) return known;
    const group = recorded(this.#mesh.group(axis), axis, this.#note);
    this.#groups.set(axis, group);
    return group;
  }

  coordinate(axis: string): number {
    return this.#mesh.coordinate(axis);
  }
}

function recorded(
  group: ProcessGroup,
  axis: string,
  note: (message: Message) => void,
): ProcessGroup {
  const noting = (operation: string, ...buffers: readonly (TypedBytes | undefined)[]): void => {
    const bytes = Math.max(...buffers.map((buffer) => buffer?.bytes.byteLength ?? 0));
    note({ operation, axis, bytes });
  };
  return {
    specificationVersion: 1,
    rank: group.rank,
    size: group.size,
    allReduce: (buffer, op, options) => {
      noting('allReduce', buffer);
      return group.allReduce(buffer, op, options);
    },
    allGather: (input, output, options) => {
      noting('allGather', input, output);
      return group.allGather(input, output, options);
    },
    reduceScatter: (input, output, op, options) => {
      noting('reduceScatter', input, output);
      return group.reduceScatter(input, output, op, options);
    },
    allToAll: (input, output, options) => {
      noting('allToAll', input, output);
      return group.allToAll(input, output, options);
    },
    broadcast: (buffer, root, options) => {
      noting('broadcast', buffer);
      return group.broadcast(buffer, root, options);
    },
    reduce: (buffer, root, op, options) => {
      noting('reduce', buffer);
      return group.reduce(buffer, root, op, options);
    },
    gather: (input, output, root, options) => {
      noting('gather', input, output);
      return group.gather(input, output, root, options);
    },
    scatter: (input, output, root, options) => {
      noting('scatter', input, output);
      return group.scatter(input, output, root, options);
    },
    barrier: (options) => group.barrier(options),
    send: (buffer, to, options) => {
      noting('send', buffer);
      return group.send(buffer, to, options);
    },
    recv: (buffer, from, options) => {
      noting('recv', buffer);
      return group.recv(buffer, from, options);
    },
    split: async (color, key, options) => {
      const part = await group.split(color, key, options);
      if (part === undefined) return undefined;
      // Neighbours along an axis count as an axis of their own, such as dp/2. A part with all ranks counts as the axis
      // itself.
      const name = part.size === group.size ? axis : `${axis}/${part.size}`;
      return recorded(part, name, note);
    },
    close: (reason) => group.close(reason),
  };
}
