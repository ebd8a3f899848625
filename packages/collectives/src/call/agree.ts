import type { CollectiveError } from '@shardwise/core/spec';
import { mismatchError } from './failure.ts';
import type { GroupCall } from './calls.ts';
import type { IssuedCall } from './issued-call.ts';
import { decodeRecord, findMismatch } from './record-codec.ts';

/** Makes the error for ranks whose calls differ. `names` says what the call of each rank is, as far as it is known. */
export type Disagreement = (names: readonly string[]) => CollectiveError;

/**
 * Compares the ranks' records of a call. `records` has the encoded records, by rank. Returns the error if they differ.
 * Otherwise passes all records to the call and returns undefined.
 */
export function agree(
  issued: IssuedCall<GroupCall, unknown>,
  records: readonly Float64Array[],
): Disagreement | undefined {
  const pair = findMismatch(records);
  if (pair !== undefined) {
    const found = records.map((fields) => fields.slice());
    return (names) => mismatchError(issued.label, found, pair, names);
  }
  issued.call.onMet?.(records.flatMap((fields) => decodeRecord(fields, records.length) ?? []));
  return undefined;
}
