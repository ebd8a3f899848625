import { CheckpointError, describeValue } from '../spec/errors.ts';

/** Throws CheckpointError for what is no state, such as one that was not saved, or the promise of one. */
export function requireState(of: string, state: unknown): void {
  if (typeof state === 'object' && state !== null && !(state instanceof Promise)) return;
  throw new CheckpointError({
    asked: `to load the state of a ${of}`,
    found: describeValue(state),
    todo: `Load what stateDict() of a ${of} gave`,
  });
}
