import { LayoutError, type Plan } from '@shardwise/core/extend';

/** Returns an error about a plan. The text of `asked` continues "a plan of 'ddp' ". */
export function planError(
  { strategy }: Pick<Plan, 'strategy'>,
  { asked, found, todo }: Readonly<Record<'asked' | 'found' | 'todo', string>>,
  fields: Readonly<Record<string, unknown>> = {},
): LayoutError {
  return new LayoutError(
    { asked: `a plan of '${strategy}' ${asked}`, found, todo },
    { strategy, ...fields },
  );
}
