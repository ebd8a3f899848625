import {
  checkOptions,
  option,
  type CallOptions,
  type InputOptions,
  type OptionRule,
  type OptionRules,
} from '@shardwise/core/spec';
import type { Operation } from './record.ts';

/** What a call waits for at most. */
export interface Limits {
  readonly timeoutMs: number;
  readonly signal: AbortSignal | undefined;
}

export interface AllToAllOptions extends CallOptions {
  /** Elements to each rank. */
  readonly inputSplits?: readonly number[];
  /** Elements from each rank. */
  readonly outputSplits?: readonly number[];
}

export interface TransferOptions extends CallOptions {
  readonly tag?: number;
}

/** Of each kind of call. */
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
  is: 'a number of milliseconds above 0 (Infinity: without limit)',
};
const signal: OptionRule<AbortSignal> = option.object('an AbortSignal');

export const callRules: OptionRules<CallOptions> = {
  timeoutMs: milliseconds,
  signal,
  pass: option.count,
};
const inputRules: OptionRules<InputOptions> = { ...callRules, input: option.object('a buffer') };
const splits = option.listOf(option.number);
// Tags and splits are checked against the group's limits later.
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

/** Of calls that say nothing, in groups that say nothing. */
export const DEFAULT_LIMITS: Limits = { timeoutMs: 600_000, signal: undefined };

/** What the options leave out is the group's. Throws ConfigError for options that the call does not have. */
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
