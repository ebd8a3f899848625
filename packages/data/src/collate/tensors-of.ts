import { DataError, fromArray, type Tensor } from '@shardwise/core/extend';
import type { TokenRows } from './token-rows.ts';

/**
 * The arrays of a batch as tensors, as the call of a model takes them:
 * `const { inputIds, ...call } = tensorsOf(batch, 'inputIds', 'attentionMask', 'labels')`. Throws DataError for a name that
 * the batch does not have, and for an array that is not named: a model that does not get it, such as the documents of
 * packed rows, would learn something else without a word. Shape: each [B, T], or [B] for labels of whole texts.
 */
export function tensorsOf<Name extends string>(
  batch: TokenRows,
  ...names: readonly Name[]
): { readonly [Each in Name]: Tensor };
export function tensorsOf(
  batch: TokenRows,
  ...names: readonly string[]
): Readonly<Record<string, Tensor>> {
  const left = Object.keys(batch).filter((name) => !names.includes(name));
  const missing = names.filter((name) => batch[name] === undefined);
  if (left.length > 0 || missing.length > 0) throw otherNames(names, missing, left);
  const entries = Object.entries(batch).map(([name, array]) => [name, fromArray(array)] as const);
  return Object.fromEntries(entries);
}

function otherNames(
  names: readonly string[],
  missing: readonly string[],
  left: readonly string[],
): DataError {
  const found = [
    ...(missing.length === 0 ? [] : [`no ${missing.join(', ')}`]),
    ...(left.length === 0 ? [] : [`${left.join(', ')}, which are not named`]),
  ];
  return new DataError(
    {
      asked: `the tensors ${names.join(', ')} of a batch`,
      found: `a batch with ${found.join(', and with ')}`,
      todo:
        missing.length === 0
          ? `Name them too, and give them to the model: tensorsOf(batch, ${[...names, ...left].map((name) => `'${name}'`).join(', ')})`
          : 'Collate samples that have these names, or name those that the batch has',
    },
    { missing, left },
  );
}
