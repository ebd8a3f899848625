import { checkOptions, option, type OptionRules, requireVersion } from '@shardwise/core/base';
import type { ProcessGroup } from '@shardwise/core/spec';

const rules: OptionRules<{ readonly group: ProcessGroup }> = {
  group: option.required({
    fits: (value): value is ProcessGroup =>
      typeof value === 'object' && value !== null && 'size' in value && 'split' in value,
    expected: 'a process group, such as that of init()',
  }),
};

/** Throws ConfigError for what is no process group, such as the context that has one, and for one of another version. */
export function requireGroup(operation: string, group: ProcessGroup): void {
  checkOptions(operation, { group }, rules);
  requireVersion(`${operation} with a group`, group, 1);
}
