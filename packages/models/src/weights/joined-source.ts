import { CheckpointError, type TensorReader, type TensorSource } from '@shardwise/core/extend';

/** Several files of tensors as one. Throws CheckpointError if two of them have a name in common. */
export function joinedSource(place: string, sources: readonly TensorSource[]): TensorSource {
  const sourceOf = new Map<string, TensorSource>();
  for (const source of sources) {
    for (const name of source.names) {
      const other = sourceOf.get(name);
      if (other !== undefined) throw doubled(place, name, [other.place, source.place]);
      sourceOf.set(name, source);
    }
  }
  return {
    place,
    names: [...sourceOf.keys()],
    isVerifiedByReading: sources.some((source) => source.isVerifiedByReading),
    get: (name) => sourceOf.get(name)?.get(name),
    open() {
      const readers = new Map<TensorSource, TensorReader>();
      return {
        async fill(name, chunk, target, part) {
          const source = sourceOf.get(name);
          if (source === undefined) throw new RangeError(`no tensor ${name} in ${place}`);
          const reader = readers.get(source) ?? source.open();
          readers.set(source, reader);
          await reader.fill(name, chunk, target, part);
        },
        async [Symbol.asyncDispose]() {
          for (const reader of readers.values()) await reader[Symbol.asyncDispose]();
        },
      };
    },
  };
}

function doubled(place: string, name: string, files: readonly string[]): CheckpointError {
  return new CheckpointError(
    {
      asked: `Loading tensors of ${place}`,
      found: `both ${files.join(' and ')} have '${name}'`,
      todo: 'Load another copy of the files',
    },
    { name, files },
  );
}
