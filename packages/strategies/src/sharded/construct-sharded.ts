import {
  chunksOf,
  constructParts,
  currentSession,
  dtypes,
  hashOffset,
  type InitialPart,
  isHeldAt,
  type Layout,
  mixed,
  type Module,
  ownPlace,
  randomState,
  replicated,
  setRandomState,
  type Shape,
  shardedAxes,
  type Strategy,
  takeChunks,
} from '@shardwise/core/extend';
import { modelSpec } from '../plan/model-spec.ts';
import { requireStrategy } from '../plan/strategy.ts';

/**
 * Builds a model of which this rank keeps only what a strategy gives it: a part of each parameter, or the parameters
 * of its stages. No rank holds more than one whole parameter at a time. Pass the result to `parallelize` with the same
 * strategy. All ranks must draw the same initial values, so call `manualSeed` with the same seed before; `parallelize`
 * compares what they have drawn. `build` runs twice, the first time to learn the names of the parameters, and draws
 * from the default generator of the rank.
 *
 *     const strategy = compose(pipeline({ microbatches: 8 }), fsdp());
 *     const parallel = await parallelize(constructSharded(() => new GPT(sizes), strategy), strategy);
 *
 * Throws ConfigError if `strategy` is not a strategy, and the errors of its `plan`.
 */
export function constructSharded<M extends Module>(build: () => M, strategy: Strategy): M {
  requireStrategy(strategy);
  const layouts = plannedLayouts(build, strategy);
  let index = 0;
  return constructParts((bytes, { shape, dtype }) => {
    const layout = layouts[index++];
    // `build` has replaced this parameter by another one, so the model does not have it.
    if (layout === undefined) return nothing(shape);
    if (shardedAxes(layout).length === 0 && layout.only === undefined) return null;
    const chunks = isHeldAt(layout, ownPlace) ? chunksOf(shape, layout, ownPlace) : [];
    return {
      bytes: takeChunks(bytes, shape, chunks, dtypes[dtype].bytes),
      layout,
      drawn: markOf(bytes),
    };
  }, build);
}

function nothing(shape: Shape): InitialPart {
  return { bytes: new Uint8Array(), layout: replicated(shape), drawn: 0 };
}

/** Hashes the first and the last bytes, which differ if ranks draw from different random keys. */
function markOf(bytes: Uint8Array): number {
  return [...bytes.subarray(0, MARKED_BYTES), ...bytes.subarray(-MARKED_BYTES)].reduce(
    mixed,
    hashOffset,
  );
}

const MARKED_BYTES = 64;

/** Returns the layout of each parameter, in the order in which parameters are made. */
function plannedLayouts(build: () => Module, strategy: Strategy): readonly (Layout | undefined)[] {
  const state = randomState();
  const made: InitialPart[] = [];
  const sample = constructParts((_, { shape }) => {
    const mark = nothing(shape);
    made.push(mark);
    return mark;
  }, build);
  setRandomState(state);
  const { parameters } = strategy.plan(modelSpec(sample), currentSession().mesh.axes);
  const byName = new Map(parameters.map(({ name, parameter }) => [name, parameter]));
  const byMark = new Map(
    sample
      .namedParameters()
      .map(([name, { initialPart }]) => [initialPart, byName.get(name)] as const),
  );
  return made.map((mark) => byMark.get(mark));
}
