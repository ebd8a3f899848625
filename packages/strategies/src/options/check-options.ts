import { ConfigError } from '@shardwise/core';
import type { OptionRule, OptionRules } from './option-rules.ts';

/**
 * Throws ConfigError for an option that `of` does not have, as one that is misspelt, for a value that
 * an option cannot have, and for one that must be given and is not. Undefined counts as left out.
 */
export function checkOptions<Options extends object>(
  of: string,
  options: Options,
  rules: OptionRules<Options>,
): void {
  const known = new Map<string, OptionRule>(Object.entries(rules));
  const given = new Map<string, unknown>(Object.entries(options));
  const needed = [...known].flatMap(([option, { isRequired }]) => (isRequired ? [option] : []));
  for (const option of new Set([...given.keys(), ...needed])) {
    const value = given.get(option);
    if (value === undefined && !needed.includes(option)) continue;
    const rule = known.get(option);
    if (rule === undefined) {
      throw new ConfigError(
        {
          asked: `${of} with the option ${option}`,
          found: 'no option of this name',
          todo: `Use ${[...known.keys()].join(', ')}`,
        },
        { option },
      );
    }
    if (rule.fits(value)) continue;
    throw new ConfigError(
      {
        asked: `${of} with ${option}: ${describe(value)}`,
        found: `a value that is not ${rule.is}`,
        todo: rule.isRequired ? `Give ${rule.is}` : `Give ${rule.is}, or leave the option out`,
      },
      { option },
    );
  }
}

function describe(value: unknown): string {
  if (typeof value === 'string') return value;
  if (typeof value === 'number' || typeof value === 'boolean') return String(value);
  return value === null ? 'null' : `a value of type ${typeof value}`;
}
