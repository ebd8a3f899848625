import { ConfigError, describeValue, LayoutError, type Plan } from '@shardwise/core/extend';

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

/** Throws ConfigError for what is no plan, such as a strategy or a model. */
export function requirePlan(of: string, plan: unknown): void {
  const isObject = typeof plan === 'object' && plan !== null;
  if (isObject && 'axes' in plan && 'parameters' in plan && 'steps' in plan) return;
  throw new ConfigError({
    asked: `${of} of ${describeValue(plan)}`,
    found: 'no plan of a model',
    todo: `Make the plan first: ${of}(planFor(model, strategy)), or take that of what parallelize() returned: ${of}(parallel.plan)`,
  });
}
