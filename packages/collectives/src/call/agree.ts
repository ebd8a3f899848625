import type { CollectiveError } from '@shardwise/core/spec';
import { mismatchError } from './failure.ts';
import type { GroupCall } from './calls.ts';
import type { IssuedCall } from './issued-call.ts';
import { decodeRecord, findMismatch, findSettingsMismatch } from './record-codec.ts';
import { settingsError } from './settings-error.ts';

/** What the ranks do about calls that differ. */
export interface Disagreement {
  /** What this rank tells the others: what its call is, or the settings of its last step. */
  readonly text: string;
  /** Makes the error. `texts` has the text of each rank. It is empty for ranks of which it is not known. */
  error(texts: readonly string[]): CollectiveError;
}

/**
 * Compares the ranks' records of a call. `records` has the encoded records, by rank. Returns what to do if they differ.
 * Otherwise passes all records to the call and returns undefined.
 */
export function agree(
  issued: IssuedCall<GroupCall, unknown>,
  records: readonly Float64Array[],
): Disagreement | undefined {
  const { label, call } = issued;
  const { identity } = call.record;
  const pair = findMismatch(records);
  if (pair !== undefined) {
    const found = records.map((fields) => fields.slice());
    return {
      text: identity?.describe() ?? '',
      error: (texts) => mismatchError(label, found, pair, texts),
    };
  }
  const settings = findSettingsMismatch(records);
  if (settings !== undefined) {
    const made = identity?.[settings.of];
    return {
      text: made?.describe() ?? '',
      error: (texts) => settingsError(label, settings, texts),
    };
  }
  call.onAgreed?.(records.flatMap((fields) => decodeRecord(fields, records.length) ?? []));
  return undefined;
}
