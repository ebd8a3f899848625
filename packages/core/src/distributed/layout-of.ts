import { checkOptions } from '../base/check-options.ts';
import * as option from '../base/option-rules.ts';
import type { OptionRule } from '../base/option-rules.ts';
import type { Layout } from '../spec/layout.ts';

const names = option.listOf(option.axisName);
const axesRule: OptionRule<string | readonly string[] | null> = {
  fits: (value): value is string | readonly string[] | null =>
    value === null || option.axisName.fits(value) || names.fits(value),
  expected: 'the name of a mesh axis, a list of them, or null',
};
const rules = {
  dims: option.required(option.listOf(axesRule)),
  partial: option.required(names),
};

/**
 * Makes a layout from the axes that shard each dim, outermost first; null means none. `layoutOf(['dp', null])`
 * shards dim 0 of two dims over dp, and the ranks of other axes have the same. `layoutOf([['dp', 'tp']])`
 * shards a vector over dp, and each part of it over tp. Throws ConfigError for what are no names of axes.
 */
export function layoutOf(
  dims: readonly (string | readonly string[] | null)[],
  partial: readonly string[] = [],
): Layout {
  checkOptions('layoutOf', { dims, partial }, rules);
  return { dims: dims.map(axesOf), partial };
}

function axesOf(axes: string | readonly string[] | null): readonly string[] {
  if (axes === null) return [];
  return typeof axes === 'string' ? [axes] : axes;
}
