import { TensorStateError } from '../../spec/errors.ts';

/** The error of a rank some of whose tensors are updated and others not. `unrelated` names
 * what failed, if no update depends on it. */
export function halfUpdated(cause: unknown, unrelated: string | null): TensorStateError {
  const reason = cause instanceof Error ? cause.message : String(cause);
  if (unrelated !== null) {
    return new TensorStateError(
      {
        asked: 'to compute tensors on this rank',
        found: `${unrelated} failed in a run that also made updates which were pending, and some or all of these were made before (${reason})`,
        todo: 'Await updates before you read other values: await optimizer.step(), or await tensor.realize(). End this rank, and start again from a checkpoint, as `shardwise run --max-restarts` does',
      },
      { failed: unrelated },
      { cause },
    );
  }
  return new TensorStateError(
    {
      asked: 'to compute tensors on this rank',
      found: `a run failed when it had updated some tensors in place and others not (${reason})`,
      todo: 'End this rank, and start again from a checkpoint, as `shardwise run --max-restarts` does',
    },
    {},
    { cause },
  );
}
