/** How the user ends a run. */
export interface EndSignals {
  /** Asks the ranks to end after the same step. */
  readonly stop: AbortSignal;
  /** Ends all ranks at once. */
  readonly signal: AbortSignal;
}

/** What a launcher does when the user ends the run. */
interface Endings {
  /** The ranks are to end after the step. */
  readonly onStop: () => void;
  /** They are to end at once. */
  readonly onForce: () => void;
}

/** Calls one of the functions when its signal is given, or now if it has been. Returns what ends that. */
export function heedSignals(
  { stop, signal }: EndSignals,
  { onStop, onForce }: Endings,
): () => void {
  const listeners = [
    [stop, onStop],
    [signal, onForce],
  ] as const;
  for (const [listened, listener] of listeners) {
    listened.addEventListener('abort', listener, { once: true });
    if (listened.aborted) listener();
  }
  return () => {
    for (const [listened, listener] of listeners) listened.removeEventListener('abort', listener);
  };
}
