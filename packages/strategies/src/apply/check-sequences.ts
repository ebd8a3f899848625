import { type Module, type Plan, sequenceAxesOf } from '@shardwise/core/extend';
import { planError } from '../plan/plan-error.ts';

/**
 * Throws LayoutError if a layer that balances experts by sequence sums over ranks to which a plan gives different
 * sequences. Such a sum would mix several sequences, and the loss would silently be wrong.
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
