import { checkOptions } from '../../base/check-options.ts';
import * as option from '../../base/option-rules.ts';
import type { OptionRules } from '../../base/option-rules.ts';
import { Module } from './module.ts';

const rules: OptionRules<{ readonly model: Module }> = {
  model: option.required(option.instanceOf(Module)),
};

/** Throws ConfigError for what is no module, such as its class, or what parallelize() has returned. */
export function requireModule(of: string, model: Module): void {
  checkOptions(of, { model }, rules);
}
