import { elementCount, flopsOf, type Model, type Module, type Node } from '@shardwise/core/extend';
import {
  checkModelCostsOf,
  type ModelCosts,
  type ModelCostsOptions,
  type ModuleCosts,
} from './model-costs.ts';
import { bytesAcross, TracedModel } from './traced-model.ts';
import { lossOfPass } from '../microbatches/loss-of-pass.ts';
import { stagesOfParameters } from '../stages/stages-of-parameters.ts';
import { keptBytes } from '../work/kept-bytes.ts';
import { withFrees, type WorkDraft } from '../work/rank-work.ts';
import { modelSpec } from '../../plan/model-spec.ts';
import { byLayer, commonUnit, unitsOfModel } from '../../plan/unit-names.ts';

/**
 * Counts what each module of a model costs for a batch. Pass the inputs of a training pass, followed by the targets of
 * the loss. It reads the graph of the pass and computes nothing, so inputs can be `zeros(shape)`; `measureModelCosts`
 * adds times. Call it before `parallelize`, with the number of rows of a microbatch.
 *
 * Throws ConfigError for a pass without a loss.
 */
export function countModelCosts<Inputs extends readonly unknown[]>(
  model: Module & Model<Inputs, unknown>,
  inputs: readonly [...Inputs, ...targets: unknown[]],
  options: ModelCostsOptions = {},
): ModelCosts {
  checkModelCostsOf('countModelCosts', model, inputs, options);
  return costsOf(
    new TracedModel(model, inputs, lossOfPass(options.loss, options.inputs)),
    model,
    options,
  );
}

export function costsOf(
  traced: TracedModel,
  model: Module,
  { optimizerTensors = 2 }: ModelCostsOptions,
): ModelCosts {
  const { rows, paths } = traced;
  const { microbatch, drafts } = traced.stages();
  const spec = modelSpec(model);
  const stages = stagesOfParameters(spec, paths.slice(1));
  const freed = freedLeaves(model, spec);
  const modules = paths.map((path, stage) => {
    const own = spec.parameters.filter((_, index) => stages[index] === stage);
    const count = (some: typeof own): number =>
      some.reduce((sum, { shape }) => sum + elementCount(shape), 0);
    const trained = count(own.filter(({ requiresGrad }) => requiresGrad));
    return {
      path,
      parameters: count(own),
      parameterTensors: own.length,
      stateBytes: 4 * (count(own) + trained * (1 + optimizerTensors)),
      ...stageUse(drafts[stage] ?? [], freed),
      outputBytes: bytesAcross(microbatch, stage),
      times: null,
    };
  });
  return { rows, inputBytes: traced.inputBytes, modules };
}

/** The operations and bytes of a stage for one microbatch. */
interface StageUse extends StageCounts, Regathered {
  readonly activationBytes: number;
  readonly weightGradientBytes: number;
}

type Regathered = Required<Pick<ModuleCosts, 'regathered' | 'regatheredUnderCheckpoint'>>;

/**
 * Sums up what a stage uses. `drafts` are its forward, input gradients and weight gradients, with its neighbours on
 * other ranks.
 */
function stageUse(drafts: readonly WorkDraft[], freed: ReadonlySet<Node>): StageUse {
  const none = new Set<never>();
  const [activationBytes = 0, weightGradientBytes = 0] = keptBytes(withFrees(drafts, none), none);
  return {
    ...countsOfDrafts(drafts),
    activationBytes,
    weightGradientBytes,
    ...regatheredBy(drafts, freed),
  };
}

/** The leaves of parameters that are freed between the passes: those of units. The unit of the whole model is kept. */
function freedLeaves(model: Module, spec: ReturnType<typeof modelSpec>): ReadonlySet<Node> {
  const unitOf = unitsOfModel(spec) ?? byLayer;
  const units = new Map(
    spec.parameters.map(({ name, names = [name] }) => [name, commonUnit(names, unitOf)]),
  );
  const freed = model.namedParameters().filter(([name]) => units.get(name) !== '');
  return new Set(freed.map(([, { part }]) => part.node));
}

/** Counts the freed parameters that the backward pass of a stage reads, as it is and under a checkpoint. */
function regatheredBy(drafts: readonly WorkDraft[], freed: ReadonlySet<Node>): Regathered {
  const received = new Set(drafts.flatMap(({ receives }) => receives.map(({ node }) => node)));
  const [forward, ...backward] = drafts;
  const kept = new Set([...received, ...(forward?.computes ?? [])]);
  const readWithout = (known: ReadonlySet<Node>): Regathered['regathered'] => {
    const nodes = [...computedFor(backward, known)];
    const read = new Set(nodes.flatMap(({ inputs }) => inputs.filter((node) => freed.has(node))));
    const elements = [...read].reduce((sum, { shape }) => sum + elementCount(shape), 0);
    return { elements, tensors: read.size };
  };
  return { regathered: readWithout(kept), regatheredUnderCheckpoint: readWithout(received) };
}

interface StageCounts {
  readonly flops: number;
  readonly recomputedFlops: number;
  readonly calls: number;
}

function countsOfDrafts(drafts: readonly WorkDraft[]): StageCounts {
  const received = new Set(drafts.flatMap(({ receives }) => receives.map(({ node }) => node)));
  const [forward, ...backward] = drafts;
  const computed = computedFor(drafts, received);
  const read = computedFor(backward, received);
  // The result of the stage itself is nothing that its backward pass reads.
  const again = [...computedFor(forward === undefined ? [] : [forward], received)].filter((node) =>
    read.has(node),
  );
  const operations = [...computed].filter(({ inputs }) => inputs.length > 0);
  // What the batch itself is made of comes before the first node of the model.
  const first = Math.min(...operations.filter((node) => node.requiresGrad).map(({ id }) => id));
  return {
    flops: sumOfFlops(computed),
    recomputedFlops: sumOfFlops(again),
    calls: operations.filter(({ id }) => id >= first).length,
  };
}

/** All nodes that drafts need and no other rank sends. */
function computedFor(drafts: readonly WorkDraft[], received: ReadonlySet<Node>): Set<Node> {
  const isComputed = (node: Node): boolean => !received.has(node) && node.value === null;
  const nodes = new Set(drafts.flatMap(({ computes }) => [...computes].filter(isComputed)));
  for (const { inputs } of nodes) {
    for (const input of inputs) if (isComputed(input)) nodes.add(input);
  }
  return nodes;
}

function sumOfFlops(nodes: Iterable<Node>): number {
  return [...nodes].reduce((sum, node) => sum + flopsOf(node), 0);
}
