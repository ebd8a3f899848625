import { checkOptions, ConfigError, option, type OptionRules } from '@shardwise/core/extend';
import { splitState } from './state-tree.ts';
import type { JsonValue } from './index-file.ts';
import type { Stateful, Statefuls } from './stateful.ts';

const pathRules: OptionRules<{ readonly path: string }> = {
  path: option.required(option.nonEmptyText),
};

const statefulRules: OptionRules<{ readonly stateful: Stateful }> = {
  stateful: option.required({
    // A communication hook is a function with these methods.
    fits: (value): value is Stateful =>
      ((typeof value === 'object' && value !== null) || typeof value === 'function') &&
      'stateDict' in value &&
      'loadStateDict' in value,
    expected: 'an object with stateDict() and loadStateDict()',
  }),
};

const statesRules: OptionRules<{ readonly states: Statefuls }> = {
  states: option.required(option.object('states by name')),
};

/** Throws ConfigError for what is no path of a file or folder. */
export function requirePath(of: string, path: string): void {
  checkOptions(of, { path }, pathRules);
}

/** Throws ConfigError for what has no state. */
export function requireStateful(of: string, stateful: Stateful): void {
  checkOptions(of, { stateful }, statefulRules);
}

/** Throws ConfigError for one of the objects that has no state. */
export function requireStatefuls(of: string, states: Statefuls): void {
  checkOptions(of, { states }, statesRules);
  for (const [name, stateful] of Object.entries(states)) {
    requireStateful(`${of}, the state '${name}'`, stateful);
  }
}

/**
 * Throws CheckpointError for what JSON would keep as something else, such as a Map or NaN, and ConfigError for a
 * tensor.
 */
export function requireJson(name: string, value: JsonValue): void {
  if (splitState(name, value).tensors.length === 0) return;
  throw new ConfigError({
    asked: `saveCheckpoint with ${name}`,
    found: 'a tensor in it',
    todo: 'Save tensors as the model, or in states',
  });
}
