import { type PageStore, shardedAxes } from '@shardwise/core/extend';
import { planError } from '../plan/plan-error.ts';
import { layerAxesOf, type StepKind } from '../plan/step.ts';

/** Keeps parts of parameters outside the device between their uses. */
export interface PageOut {
  readonly parameters: readonly string[];
  readonly store: PageStore;
}

/**
 * The kind of the step `PageOut`. Place it before the step that shards the parameters; then they are never all
 * on the device.
 */
export const page: StepKind<PageOut> = {
  name: 'page',
  collectives: () => [],
  check({ parameters }, context) {
    const { plan } = context;
    // Layers compute with the parts on these axes, so sharding over them alone does not let a part leave the device.
    const layerAxes = new Set(layerAxesOf(plan));
    const whole = parameters.find((name) =>
      shardedAxes(context.plannedOf(name).optimizer).every((axis) => layerAxes.has(axis)),
    );
    if (whole === undefined) return;
    throw planError(
      plan,
      {
        asked: `that keeps parts of '${whole}' outside the device`,
        found: 'it is not sharded',
        todo: "Name parameters that a step 'distribute' shards",
      },
      { parameter: whole },
    );
  },
  async apply({ parameters, store }, context) {
    const names = new Set(parameters);
    await context.whenSharded(async (name, part) => {
      if (names.has(name)) await part.pageOut(name, store);
    });
  },
};
