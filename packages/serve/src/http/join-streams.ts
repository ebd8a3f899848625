/** A value with the number of the stream that it came from. */
export interface JoinedValue<T> {
  readonly stream: number;
  readonly value: T;
}

/** Takes values from several streams, in the order in which they come. */
export async function* joinStreams<T>(
  streams: readonly AsyncGenerator<T, void, void>[],
): AsyncGenerator<JoinedValue<T>, void, void> {
  const pending = new Map<number, Promise<readonly [number, IteratorResult<T, void>]>>();
  const ask = (stream: number): void => {
    const next = streams[stream]?.next();
    if (next !== undefined)
      pending.set(
        stream,
        next.then((result) => [stream, result] as const),
      );
  };
  streams.forEach((_, stream) => ask(stream));
  try {
    while (pending.size > 0) {
      const [stream, result] = await Promise.race(pending.values());
      pending.delete(stream);
      if (result.done === true) continue;
      ask(stream);
      yield { stream, value: result.value };
    }
  } finally {
    // A stream that fails ends the others, whose own errors nobody waits for.
    const ends = streams.map((stream) => stream.return().catch(() => undefined));
    await Promise.allSettled([...pending.values(), ...ends]);
  }
}
