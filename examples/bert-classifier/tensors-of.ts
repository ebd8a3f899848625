import type { TokenRows } from '@shardwise/data';
import { DataError, fromArray, type Tensor } from 'shardwise';

/** A batch as a model takes it. Shape: inputIds [B, T]. */
export interface BatchTensors {
  readonly inputIds: Tensor;
  readonly attentionMask: Tensor;
  readonly labels: Tensor;
}

/** Makes the tensors of a batch. Throws DataError if one is missing. */
export function tensorsOf({ inputIds, attentionMask, labels }: TokenRows): BatchTensors {
  if (inputIds !== undefined && attentionMask !== undefined && labels !== undefined) {
    return {
      inputIds: fromArray(inputIds),
      attentionMask: fromArray(attentionMask),
      labels: fromArray(labels),
    };
  }
  throw new DataError({
    asked: 'a batch for a BERT',
    found: 'no inputIds, attentionMask or labels',
    todo: 'Collate samples that have inputIds and labels',
  });
}
