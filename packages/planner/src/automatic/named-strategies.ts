import { LayoutError, type MeshAxis, type ModelSpec, type Strategy } from '@shardwise/core/extend';
import { compose, ddp, fsdp, pipeline, tensorParallel, zero } from '@shardwise/strategies';
import { fillsRounds, scheduleFacts } from '../cost/schedule-facts.ts';

/** A strategy for the axes at hand, and what a rank has of activations with it. */
export interface NamedStrategy {
  readonly name: string;
  readonly make: () => Strategy;
  /** The share of the activations of a batch that a rank has at a time. Default: 1. */
  readonly activationShare?: number;
  readonly bubble?: number;
}

const ofData: readonly NamedStrategy[] = [
  { name: 'ddp', make: () => ddp() },
  { name: 'zero 1', make: () => zero({ stage: 1 }) },
  { name: 'zero 2', make: () => zero({ stage: 2 }) },
  { name: 'fsdp', make: () => fsdp() },
];

/**
 * Returns the strategies for the axes `tp`, `pp` and `dp` of a mesh, one of each kind composed. `microbatches` are those of a
 * pipeline. Throws LayoutError for other axes, and for a model that does not say how it is divided over them.
 */
export function strategiesFor(
  model: ModelSpec,
  axes: readonly MeshAxis[],
  microbatches?: number,
): readonly NamedStrategy[] {
  const sizeOf = (name: string): number => axes.find((axis) => axis.name === name)?.size ?? 1;
  const unknown = axes.find(({ name }) => !known.has(name));
  if (unknown !== undefined)
    throw noStrategy(axes, `the axis '${unknown.name}', for which it has no strategy`);
  const { styles, stages } = model.division ?? {};
  if (sizeOf('tp') > 1 && styles === undefined) {
    throw noStrategy(axes, 'a model that does not say how its layers are divided');
  }
  if (sizeOf('pp') > 1 && stages === undefined) {
    throw noStrategy(axes, 'a model that does not say with which modules stages can begin');
  }
  const layers: readonly NamedStrategy[] =
    sizeOf('tp') > 1 ? [{ name: 'tensorParallel', make: () => tensorParallel() }] : [];
  const ranks = sizeOf('pp');
  const pipelines = ranks > 1 ? pipelinesOf(ranks, microbatches ?? 4 * ranks) : [];
  // A pipeline would gather parameters, or scatter gradients, for each microbatch.
  const data = axes.some(({ name }) => name === 'dp')
    ? ofData.slice(0, ranks > 1 ? 2 : ofData.length)
    : [];
  const [first = ofData, ...others] = [layers, pipelines, data].filter((some) => some.length > 0);
  return others.reduce(
    (outer, inner) => outer.flatMap((left) => inner.map((right) => composed(left, right))),
    first,
  );
}

function composed(outer: NamedStrategy, inner: NamedStrategy): NamedStrategy {
  return {
    activationShare: (outer.activationShare ?? 1) * (inner.activationShare ?? 1),
    bubble: (outer.bubble ?? 0) + (inner.bubble ?? 0),
    name: `${outer.name} × ${inner.name}`,
    make: () => compose(outer.make(), inner.make()),
  };
}

const known: ReadonlySet<string> = new Set(['dp', 'tp', 'pp']);

/** The schedules that are considered, from the simplest. */
const schedules = ['1f1b', 'zb1p'] as const;

function pipelinesOf(ranks: number, microbatches: number): readonly NamedStrategy[] {
  const possible = schedules.filter((schedule) => fillsRounds(schedule, ranks, microbatches));
  return possible.map((schedule): NamedStrategy => {
    const { bubble, inFlight } = scheduleFacts(schedule, ranks, 1, microbatches);
    return {
      name: `pipeline ${schedule}`,
      make: () => pipeline({ schedule, microbatches }),
      activationShare: Math.max(...inFlight) / (ranks * microbatches),
      bubble,
    };
  });
}

function noStrategy(axes: readonly MeshAxis[], found: string): LayoutError {
  const asked = `auto() on the axes ${axes.map(({ name, size }) => `${name} of ${size}`).join(', ')}`;
  return new LayoutError(
    {
      asked,
      found,
      todo: 'Use axes dp, tp and pp, or choose the strategy by `shardwise plan` and name it',
    },
    { axes: axes.map(({ name }) => name) },
  );
}
