import { checkOptions, option, type OptionRule, type OptionRules } from '@shardwise/core/base';
import type { CallOptions, InputOptions } from '@shardwise/core/spec';
import type { Operation } from './record.ts';

/** How long a call may take. */
export interface Limits {
  readonly timeoutMs: number;
  readonly signal: AbortSignal | undefined;
}

export interface AllToAllOptions extends CallOptions {
  /** The number of elements for each rank. */
  readonly inputSplits?: readonly number[];
  /** The number of elements from each rank. */
  readonly outputSplits?: readonly number[];
}

export interface TransferOptions extends CallOptions {
  readonly tag?: number;
}

/** The options of each kind of call. */
interface CallKinds extends Record<Operation | 'send' | 'recv', CallOptions> {
  readonly allReduce: InputOptions;
  readonly broadcast: InputOptions;
  readonly reduce: InputOptions;
  readonly allToAll: AllToAllOptions;
  readonly send: TransferOptions;
  readonly recv: TransferOptions;
}

export const milliseconds: OptionRule<number> = {
  fits: option.positive.fits,
  expected: 'a number of milliseconds above 0 (Infinity: without limit)',
};
const signal: OptionRule<AbortSignal> = option.object('an AbortSignal');

export const callRules: OptionRules<CallOptions> = {
  timeoutMs: milliseconds,
  signal,
  pass: option.count,
  identity: option.object('what the call is'),
};
const inputRules: OptionRules<InputOptions> = { ...callRules, input: option.object('a buffer') };
const splits = option.listOf(option.number);
// Tags and splits are checked later, because that needs the group.
const transferRules: OptionRules<TransferOptions> = { ...callRules, tag: option.number };

const rules: { readonly [Call in keyof CallKinds]: OptionRules<CallKinds[Call]> } = {
  allReduce: inputRules,
  allGather: callRules,
  reduceScatter: callRules,
  allToAll: { ...callRules, inputSplits: splits, outputSplits: splits },
  broadcast: inputRules,
  reduce: inputRules,
  gather: callRules,
  scatter: callRules,
  barrier: callRules,
  split: callRules,
  send: transferRules,
  recv: transferRules,
};

/** The limits of calls and groups if nobody has set others. */
export const DEFAULT_LIMITS: Limits = { timeoutMs: 600_000, signal: undefined };

/**
 * The limits of a call. The group's limits apply where the call's options set none. Throws ConfigError for options that
 * the call does not have.
 */
export function limitsOf<Call extends keyof CallKinds>(
  call: Call,
  options: CallKinds[Call] | undefined,
  ofGroup: Limits,
): Limits {
  if (options === undefined) return ofGroup;
  checkOptions(call, options, rules[call]);
  const { timeoutMs = ofGroup.timeoutMs, signal } = options;
  return { timeoutMs, signal };
}
