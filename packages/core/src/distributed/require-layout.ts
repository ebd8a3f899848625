import { checkOptions } from '../base/check-options.ts';
import * as option from '../base/option-rules.ts';
import type { OptionRules } from '../base/option-rules.ts';
import type { Layout } from '../spec/layout.ts';

const rules: OptionRules<{ readonly layout: Layout }> = {
  layout: option.required({
    fits: (value): value is Layout =>
      typeof value === 'object' &&
      value !== null &&
      'dims' in value &&
      Array.isArray(value.dims) &&
      value.dims.every(Array.isArray) &&
      'partial' in value &&
      Array.isArray(value.partial),
    expected: "a layout, such as layoutOf(['dp', null])",
  }),
};

/** Throws ConfigError for what is no layout, such as the list that layoutOf() takes. */
export function requireLayout(of: string, layout: Layout): void {
  checkOptions(of, { layout }, rules);
}
