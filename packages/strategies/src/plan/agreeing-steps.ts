import type { Plan } from '@shardwise/core/extend';
import { planError } from './plan-error.ts';
import { type Step, type StepKey, stepsOf } from './step.ts';

/** Throws LayoutError for a plan with several steps of these kinds. */
export function requireOneStep(plan: Plan, ...kinds: readonly StepKey<never>[]): void {
  const count = kinds.reduce((sum, kind) => sum + stepsOf(plan, kind).length, 0);
  if (count <= 1) return;
  throw planError(plan, {
    asked: `with one step '${kinds.map(({ name }) => name).join("' or '")}'`,
    found: `${count} of them`,
    todo: 'Leave one',
  });
}

/**
 * Throws LayoutError if steps that are carried out together differ in a setting, because one of the values would be
 * ignored. Lists are equal if their elements are.
 */
export function requireSameSettings<Data extends object>(
  plan: Plan,
  steps: readonly Step<Data>[],
  settingsOf: (data: Data) => Readonly<Record<string, unknown>>,
): void {
  const [first, ...others] = steps;
  if (first === undefined) return;
  for (const [setting, value] of Object.entries(settingsOf(first.data))) {
    if (others.every(({ data }) => isSame(settingsOf(data)[setting], value))) continue;
    throw planError(
      plan,
      {
        asked: `whose steps '${first.kind}' agree on ${setting}`,
        found: 'two that differ',
        todo: `Give all of them the same ${setting}`,
      },
      { step: first.kind, setting },
    );
  }
}

/** Returns the first name that occurs again. */
export function firstTwice(names: Iterable<string>): string | undefined {
  const seen = new Set<string>();
  for (const name of names) {
    if (seen.has(name)) return name;
    seen.add(name);
  }
  return undefined;
}

function isSame(a: unknown, b: unknown): boolean {
  if (!Array.isArray(a) || !Array.isArray(b)) return a === b;
  return a.length === b.length && a.every((each, index) => each === b[index]);
}
