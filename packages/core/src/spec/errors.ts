/** The parts of every message: what was asked, what was found, and what to do. */
export interface ErrorParts {
  readonly asked: string;
  readonly found: string;
  /** The remedy, as an imperative sentence. */
  readonly todo: string;
}

/**
 * The base class of all errors that a user can cause. `code` does not change between versions. `fields` contain the
 * numbers of the message. To recognize errors of another copy of the package, use `ShardwiseError.isInstance`.
 */
export abstract class ShardwiseError extends Error {
  override readonly name: string;
  abstract readonly code: string;
  /** Marks the errors of every copy of the package. */
  readonly isShardwiseError = true;
  readonly fields: Readonly<Record<string, unknown>>;

  constructor(
    parts: ErrorParts,
    fields: Readonly<Record<string, unknown>> = {},
    options?: ErrorOptions,
  ) {
    super(`${parts.asked}: ${parts.found}. ${parts.todo}`, options);
    // The classes of this package set `name` to a literal, because bundlers for pages shorten the names of classes.
    this.name = new.target.name;
    this.fields = fields;
  }

  static isInstance(error: unknown): error is ShardwiseError {
    return error instanceof Error && 'isShardwiseError' in error;
  }
}

/** Shapes that do not fit an op. */
export class ShapeError extends ShardwiseError {
  override readonly name: string = 'ShapeError';
  readonly code = 'SHAPE';
}

/** A dtype that an op, a buffer or a file does not take. */
export class DTypeError extends ShardwiseError {
  override readonly name: string = 'DTypeError';
  readonly code = 'DTYPE';
}

/** An option, a setting or an argument out of range. */
export class ConfigError extends ShardwiseError {
  override readonly name: string = 'ConfigError';
  readonly code = 'CONFIG';
}

/** A layout or plan that does not fit the mesh or the model. */
export class LayoutError extends ShardwiseError {
  override readonly name: string = 'LayoutError';
  readonly code = 'LAYOUT';
}

/** A tensor used in a way that its state does not allow (freed, overwritten, without gradient). */
export class TensorStateError extends ShardwiseError {
  override readonly name: string = 'TensorStateError';
  readonly code = 'TENSOR_STATE';
}

/** What a backend knows of an index that is out of range. */
export interface IndexFault {
  readonly op: string;
  /** The number of the program's instruction that found it. */
  readonly instruction: number;
  /** The value of the index. */
  readonly index: number;
  /** The place of the index among the indices, row by row. */
  readonly element: number;
  /** Indices from 0 to `size` - 1 were in range. */
  readonly size: number;
  /** Whether the run had already made an update, so that it cannot be repeated. */
  readonly updated: boolean;
}

/** An index or a label is out of range. `fields` name it and the range. */
export class IndexError extends ShardwiseError {
  override readonly name: string = 'IndexError';
  readonly code = 'INDEX';

  /**
   * The error with which a run of a backend rejects. Core replaces it by one that names the user's operation
   * and line.
   */
  static ofRun(fault: IndexFault): IndexError {
    return new IndexError(
      {
        asked: `${fault.op} by index ${fault.index}`,
        found: `element ${fault.element} of the indices is not in [0, ${fault.size})`,
        todo: 'Check where the indices come from',
      },
      { ...fault },
    );
  }
}

/** A device has no memory left, or cannot compile or run a program. */
export class BackendError extends ShardwiseError {
  override readonly name: string = 'BackendError';
  readonly code: string = 'BACKEND';
}

/**
 * A device has no memory left. `alloc` throws this error and changes nothing. A run that finds no memory for its
 * temporaries rejects with it before it has updated anything. Core then collects dropped tensors and tries again.
 */
export class OutOfMemoryError extends BackendError {
  override readonly name: string = 'OutOfMemoryError';
  override readonly code = 'OUT_OF_MEMORY';
}

/** Data cannot be found or read. */
export class DataError extends ShardwiseError {
  override readonly name: string = 'DataError';
  readonly code = 'DATA';
}

/** A checkpoint is missing, damaged, or of another model. */
export class CheckpointError extends ShardwiseError {
  override readonly name: string = 'CheckpointError';
  readonly code = 'CHECKPOINT';
}

/** Communication failed. `fields` name the rank, the operation and its sequence number. */
export class CollectiveError extends ShardwiseError {
  override readonly name: string = 'CollectiveError';
  readonly code: string = 'COLLECTIVE';
}

/** Ranks called different operations, sizes or dtypes. */
export class CollectiveMismatchError extends CollectiveError {
  override readonly name: string = 'CollectiveMismatchError';
  override readonly code = 'COLLECTIVE_MISMATCH';
}

/** Ranks did not arrive in time. */
export class CollectiveTimeoutError extends CollectiveError {
  override readonly name: string = 'CollectiveTimeoutError';
  override readonly code = 'COLLECTIVE_TIMEOUT';
}

/** The group was ended by a rank, or from outside. */
export class CollectiveAbortedError extends CollectiveError {
  override readonly name: string = 'CollectiveAbortedError';
  override readonly code = 'COLLECTIVE_ABORTED';
}

/** A server refused a request. `refusal` among the fields names the reason. */
export class RefusedError extends CollectiveError {
  override readonly name: string = 'RefusedError';
  override readonly code = 'REFUSED';
}

/** A short text for any value, for messages. */
export function describeValue(value: unknown): string {
  if (typeof value === 'string') {
    return value.length > 40 ? `'${value.slice(0, 40)}…'` : `'${value}'`;
  }
  if (typeof value === 'bigint') return `${value}n`;
  if (typeof value === 'function') return 'a function';
  if (typeof value === 'symbol') return 'a symbol';
  if (typeof value !== 'object' || value === null) return String(value);
  if (Array.isArray(value)) return describeArray(value);
  const { name } = value.constructor ?? Object;
  if (name === 'Object' || name === '') return 'an object';
  return `${/^[AEIOU]/.test(name) ? 'an' : 'a'} ${name}`;
}

function describeArray(array: readonly unknown[]): string {
  if (array.length === 0) return 'an empty array';
  const isShort = array.length <= 6 && array.every((item) => typeof item === 'number');
  return isShort ? `[${array.join(', ')}]` : `an array of ${array.length}`;
}
