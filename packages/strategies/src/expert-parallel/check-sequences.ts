import { type Module, type Plan, sequenceAxesOf } from '@shardwise/core/extend';
import { planError } from '../plan/plan-error.ts';

/**
 * Throws LayoutError for a layer that balances experts by sequence and counts the parts of one over ranks that a plan gives
 * other sequences: it would add up those of several, and its loss would be wrong without a word.
 */
export function checkSequences(plan: Plan, model: Module): void {
  const [batch = []] = plan.batch.dims;
  const split = new Set(plan.axes.filter(({ size }) => size > 1).map(({ name }) => name));
  for (const [path, module] of model.namedModules()) {
    const axis = sequenceAxesOf(module)?.find((each) => batch.includes(each) && split.has(each));
    if (axis === undefined) continue;
    throw planError(
      plan,
      {
        asked: `with '${path}', which balances experts by sequences that are spread over '${axis}'`,
        found: `the ranks of '${axis}' share out the batch, so they have different sequences`,
        todo: `Leave '${axis}' out of bySequence: each rank balances its own sequences, and their mean is that of all`,
      },
      { path, axis },
    );
  }
}
