import { checkOptions, option, type OptionRules } from '@shardwise/core/base';
import {
  CollectiveError,
  ConfigError,
  type CallOptions,
  type ProcessGroup,
} from '@shardwise/core/spec';
import { callRules, type TransferOptions } from '../call/call-options.ts';
import { requireGroup } from '../call/require-group.ts';
import { brokenObjectError } from './byte-reader.ts';
import { encodeObject } from './object-codec.ts';

/** Options of the collectives of objects, such as `broadcastObject`. */
export interface ObjectOptions extends CallOptions {
  /**
   * The largest length of an object in bytes. Longer objects are refused. It is the same on every rank.
   * Default: 64 MiB.
   */
  readonly maxBytes?: number;
}

export interface ObjectTransferOptions extends ObjectOptions {
  readonly tag?: number;
}

/** What an operation needs of its options. `call` are the options of the calls that it makes. */
export interface ObjectCall<Call extends CallOptions = CallOptions> {
  readonly operation: string;
  readonly call: Call;
  readonly maxBytes: number;
}

const objectRules: OptionRules<ObjectOptions> = { ...callRules, maxBytes: option.count };
const transferRules: OptionRules<ObjectTransferOptions> = { ...objectRules, tag: option.number };

/** Throws ConfigError for what is no group, and for options that the operation does not have. */
export function objectCall(
  operation: string,
  group: ProcessGroup,
  options: ObjectOptions = {},
): ObjectCall {
  requireGroup(operation, group);
  checkOptions(operation, options, objectRules);
  const { maxBytes = DEFAULT_MAX_BYTES, ...call } = options;
  return { operation, call, maxBytes };
}

/** Does what objectCall does, for a message between two ranks. */
export function objectTransfer(
  operation: string,
  group: ProcessGroup,
  options: ObjectTransferOptions = {},
): ObjectCall<TransferOptions> {
  requireGroup(operation, group);
  checkOptions(operation, options, transferRules);
  const { maxBytes = DEFAULT_MAX_BYTES, ...call } = options;
  return { operation, call, maxBytes };
}

/**
 * Every rank first sends a block of this length:
 *
 *   byteLength f64 | longest f64 | the first bytes of the object
 *
 * `longest` is the length of the longest object of the call that the sender knows, so that all ranks agree on
 * whether a second call follows. A byteLength of FAILED says that the sender has nothing to send.
 */
export const BLOCK_BYTES = 512;
const HEADER_BYTES = 16;
const INLINE_BYTES = BLOCK_BYTES - HEADER_BYTES;
const FAILED = -1;
const DEFAULT_MAX_BYTES = 64 * 2 ** 20;

/**
 * An object's bytes, or the error with which encoding it failed. The sender throws the error once the other ranks know
 * of it.
 */
export interface Outgoing {
  readonly bytes: Uint8Array;
  readonly error: unknown;
}

/** What a rank knows of an object when it has the object's block. */
export interface Incoming {
  /** Memory for the whole object. The bytes after those of the block have not come yet. */
  readonly bytes: Uint8Array;
  readonly longest: number;
}

export function outgoingOf(encode: () => Uint8Array): Outgoing {
  try {
    return { bytes: encode(), error: undefined };
  } catch (error) {
    return { bytes: new Uint8Array(0), error };
  }
}

export function outgoingObject(value: unknown): Outgoing {
  return outgoingOf(() => encodeObject(value));
}

export function blockOf(
  { bytes, error }: Outgoing,
  longest: number = bytes.byteLength,
): Uint8Array {
  const block = new Uint8Array(BLOCK_BYTES);
  const view = new DataView(block.buffer);
  view.setFloat64(0, error === undefined ? bytes.byteLength : FAILED, true);
  view.setFloat64(8, longest, true);
  block.set(bytes.subarray(0, INLINE_BYTES), HEADER_BYTES);
  return block;
}

/**
 * Reads a block. Throws for a sender that failed and for an object that is too long. It does so on all ranks that have
 * the block.
 */
export function openBlock(
  block: Uint8Array,
  from: number,
  { operation, maxBytes }: Omit<ObjectCall, 'call'>,
): Incoming {
  const view = new DataView(block.buffer, block.byteOffset, block.byteLength);
  const byteLength = view.getFloat64(0, true);
  const longest = view.getFloat64(8, true);
  if (byteLength === FAILED) throw failedSenderError(operation, from);
  const isSound = Number.isSafeInteger(longest) && Number.isInteger(byteLength);
  if (!isSound || byteLength < 0 || byteLength > longest) {
    throw brokenObjectError(`${byteLength} of at most ${longest} bytes should follow`);
  }
  checkLength(from, longest, { operation, maxBytes });
  const bytes = new Uint8Array(byteLength);
  bytes.set(block.subarray(HEADER_BYTES, HEADER_BYTES + byteLength));
  return { bytes, longest };
}

export function checkLength(
  from: number,
  bytes: number,
  { operation, maxBytes }: Omit<ObjectCall, 'call'>,
): void {
  if (bytes > maxBytes) throw tooLongError(operation, from, bytes, maxBytes);
}

/** The bytes that do not fit the block. */
export function restOf(bytes: Uint8Array): Uint8Array {
  return bytes.subarray(INLINE_BYTES);
}

/** Whether an object of that length does not fit the block. */
export function hasRest(byteLength: number): boolean {
  return byteLength > INLINE_BYTES;
}

function failedSenderError(operation: string, from: number): CollectiveError {
  return new CollectiveError(
    {
      asked: operation,
      found: `rank ${from} has a value that cannot be sent`,
      todo: `Look for the error on rank ${from}`,
    },
    { operation, rank: from },
  );
}

function tooLongError(
  operation: string,
  from: number,
  bytes: number,
  maxBytes: number,
): ConfigError {
  return new ConfigError(
    {
      asked: `${operation} of an object of ${bytes} bytes from rank ${from}`,
      found: `maxBytes is ${maxBytes}`,
      todo: 'Raise maxBytes on every rank, or send large arrays with the operations for buffers',
    },
    { operation, rank: from, bytes, maxBytes },
  );
}
