import { ConfigError } from '@shardwise/core/extend';
import { z } from 'zod';

/** A place in a stream, as plain data that JSON can store. */
export type StreamState =
  | string
  | number
  | boolean
  | null
  | readonly StreamState[]
  | { readonly [name: string]: StreamState };

/**
 * An item that is made when it is needed: ranks go past the items of others without reading them. It is made once, however
 * often it is asked for.
 */
export type Lazy<T> = () => Promise<T>;

/** Reads one epoch of a stream. */
export interface Cursor<T> {
  /** The next item. Undefined at the end. */
  next(): Promise<Lazy<T> | undefined>;
  /** The place after the last item. A cursor that is opened there goes on with the next one. */
  state(): StreamState;
  /** Ends the reading before the end of the stream. */
  close(): Promise<void>;
}

/** Opens a cursor at the beginning of an epoch, or at a place of it. */
export type OpenCursor<T> = (epoch: number, state: StreamState | undefined) => Cursor<T>;

/** Makes an item at the first call, and returns the same one at later calls. */
export function lazy<T>(make: () => T | Promise<T>): Lazy<T> {
  let made: Promise<T> | undefined;
  return () => (made ??= Promise.resolve().then(make));
}

/** Throws ConfigError for a state that is not of this form, as one of another stream. */
export function checkState<T>(schema: z.ZodType<T>, state: StreamState, of: string): T {
  const parsed = schema.safeParse(state);
  if (parsed.success) return parsed.data;
  throw otherStream(of, parsed.error.issues[0]?.message ?? 'another form');
}

export function otherStream(of: string, found: string): ConfigError {
  return new ConfigError({
    asked: `to continue a stream ${of}`,
    found: `a state that is not of this stream: ${found}`,
    todo: 'Make the stream of the same parts as when the state was saved, or begin an epoch anew',
  });
}

/** Plain data, as states are. */
export const anyState: z.ZodType<StreamState> = z.union([
  z.string(),
  z.number(),
  z.boolean(),
  z.null(),
  z.array(z.lazy(() => anyState)),
  z.record(
    z.string(),
    z.lazy(() => anyState),
  ),
]);
