import { errorsOf, fitConstants, quantitiesOf } from '@shardwise/planner';
import type { MeasuredRun } from './measured-runs.ts';

/**
 * The errors of runs by constants of their own layout, which are fitted to the same runs: one for a step, one for each
 * microbatch and one for each of its rows. They are what is left for no cost that adds up over microbatches and rows to explain,
 * whatever it is. Layouts with fewer than three sizes of microbatches are left out, since the constants would be as many.
 */
export function ownLineErrors(runs: readonly MeasuredRun[]): readonly number[] {
  const layouts = Map.groupBy(runs, ({ row: { hidden, layers, batch, tp, dp, pp } }) =>
    [hidden, layers, batch, tp, dp, pp].join(),
  );
  return [...layouts.values()].flatMap((own) => {
    if (own.length < 3) return [];
    const quantities = own.map(({ model, layout, workload, cluster }) => {
      const { startedLayers, layerFlops } = quantitiesOf(model, layout, workload, cluster);
      return [1, startedLayers, layerFlops];
    });
    const seconds = own.map(({ row }) => Number(row.stepMs) / 1000);
    return errorsOf(quantities, seconds, fitConstants(quantities, seconds));
  });
}
