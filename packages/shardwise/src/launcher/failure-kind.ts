import { ShardwiseError } from '@shardwise/core/extend';
import type { FailureKind } from '../rendezvous/generation.ts';

/**
 * Returns the kind of a failure of a rank that has not reported a step yet. Until then, a rank does nothing that
 * depends on chance except starting.
 */
export function failureKind(error: unknown): FailureKind | undefined {
  // Errors about the files of a checkpoint have a path. Other errors about checkpoints say that something does not fit.
  if (ShardwiseError.isInstance(error) && error.code === 'CHECKPOINT' && 'path' in error.fields) {
    return 'checkpoint';
  }
  return isMistake(error) ? 'mistake' : undefined;
}

/** The codes of errors that occur again each time: options, shapes, dtypes and layouts do not change by themselves. */
const MISTAKES: ReadonlySet<string> = new Set([
  'CONFIG',
  'CHECKPOINT',
  'SHAPE',
  'DTYPE',
  'LAYOUT',
  'TENSOR_STATE',
]);
/**
 * The system's codes for a file that does not exist, or that this user may not read. Errors with other codes may go
 * away.
 */
const ABSENT: ReadonlySet<string> = new Set(['ENOENT', 'ENOTDIR', 'EISDIR', 'EACCES', 'EPERM']);
const SYSTEM_CODE = /^E(?!RR_)[A-Z\d]+$/;

function isMistake(error: unknown): boolean {
  const chain = [...causesOf(error)];
  const codes = chain.flatMap((each) =>
    'code' in each && typeof each.code === 'string' ? [each.code] : [],
  );
  const systemCode = codes.find((code) => SYSTEM_CODE.test(code));
  if (systemCode !== undefined) return ABSENT.has(systemCode);
  const [outer, inner] = chain;
  if (outer === undefined) return false;
  if (ShardwiseError.isInstance(outer)) {
    if (MISTAKES.has(outer.code)) return true;
    // A data loader's worker that is gone may have been killed, which is no mistake. If it threw, the error is the
    // cause.
    return (
      outer.code === 'DATA' &&
      (inner === undefined ? !('worker' in outer.fields) : isMistake(inner))
    );
  }
  // `fetch` reports network failures as a TypeError with a cause.
  if (outer instanceof TypeError || outer.name === 'TypeError') return inner === undefined;
  return (
    outer.name === 'SyntaxError' ||
    outer.name === 'ReferenceError' ||
    codes[0]?.startsWith('ERR_MODULE') === true
  );
}

function* causesOf(error: unknown): Iterable<Error> {
  for (let current = error, depth = 0; current instanceof Error && depth < 8; depth += 1) {
    yield current;
    current = current.cause;
  }
}
