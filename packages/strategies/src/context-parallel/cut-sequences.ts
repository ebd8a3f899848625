import {
  axisOf,
  axisSize,
  BatchNorm,
  type CollectivePlan,
  currentSession,
  declareAxisTypes,
  inSequencePart,
  isGradEnabled,
  LayoutError,
  MixtureOfExperts,
} from '@shardwise/core/extend';
import { forEachTensor } from '../modules/map-tensors.ts';
import { runStagesKey } from '../pipeline/run-stages-key.ts';
import type { PassHooks, PlanContext } from '../plan/plan-context.ts';
import { planError } from '../plan/plan-error.ts';
import { axisUsesOf, mapStepsOver, Step, type StepKind, stepsOf } from '../plan/step.ts';
import { SameBatch } from '../tensor-parallel/same-batch.ts';
import { describeCosts } from './describe-costs.ts';
import { ContextMessages } from './context-messages.ts';
import { ContextPart } from './context-part.ts';
import { cutInputs, sequenceLengths, type SequencesOf } from './cut-inputs.ts';
import { type ContextLossWeight, joinOutputs } from './join-outputs.ts';
import type { ContextMethod } from './methods.ts';
import { type SequenceRanks, SequenceCut } from './sequence-cut.ts';
import { SequenceCuts } from './sequence-cuts.ts';

/** The ranks of an axis have parts of the same sequences, and attend to each other's tokens. */
export interface CutSequences {
  readonly axis: string;
  readonly method: ContextMethod;
  readonly neighbours: number;
  readonly order: SequenceRanks['order'];
  readonly countsPlaces: boolean;
  readonly lossWeight?: ContextLossWeight;
  /** Default: the first tensor is the only sequence. */
  readonly sequences?: SequencesOf;
  /** The messages of the latest pass that trained. Default: there was none, or a pipeline has passed microbatches. */
  readonly latest?: readonly CollectivePlan[];
}

/** The kind of the step `CutSequences`. */
export const cutSequences: StepKind<CutSequences> = {
  name: 'cutSequences',
  collectives: ({ latest = [] }) => latest,
  axisUses: ({ axis }) => [{ axis, divides: 'sequence' }],
  // The microbatches of a pipeline are whole sequences, which are cut in each pass.
  follows: (_, other) => Step.is(other, runStagesKey),
  check(data, context) {
    requireShared(data, context);
    requireKnownModel(data, context);
  },
  async apply(data, context) {
    const { axis, neighbours } = data;
    const { size } = axisOf(currentSession().mesh, axis);
    if (size === 1) return;
    const headAxis = neighbours === size ? axis : `${axis}/${neighbours}`;
    if (neighbours > 1 && neighbours < size) {
      await currentSession().extendMesh(headAxis, axis, async (group) => {
        const own = await group.split(Math.floor(group.rank / neighbours), group.rank);
        if (own !== undefined) return own;
        throw new TypeError('a rank with a colour is in a group');
      });
    }
    context.hooks.push(new SameBatch(axis), cutPasses(data, context, headAxis));
  },
  explain({ axis, method, neighbours, order }, plan, attention) {
    const ranks = axisSize(plan.axes, axis);
    const cut = new SequenceCut(2 * ranks, { ranks, neighbours, order });
    const places = Array.from({ length: ranks }, (_, rank) =>
      cut
        .stretchesOf(rank)
        .map(({ start, stop }) => `${start}-${stop - 1}`)
        .join(' and '),
    );
    return [
      `sequences are cut over the ${ranks} ranks of '${axis}', which attend to each other by the method '${method}'`,
      ...places.map((own, rank) => `  rank ${rank} has the tokens ${own} of each ${cut.length}`),
      ...(attention === undefined
        ? []
        : describeCosts(method, new SequenceCut(attention.tokens, cut.over), attention)),
    ].join('\n');
  },
};

function cutPasses(data: CutSequences, { model, plan }: PlanContext, headAxis: string): PassHooks {
  const { axis, method, neighbours, order, countsPlaces } = data;
  const { size: ranks, rank } = axisOf(currentSession().mesh, axis);
  const sequences = model.division?.()?.sequences;
  const mixes = tokenMixer(model);
  const lossWeight = sequences === undefined ? data.lossWeight : 'share';
  const place = { axis, rank, method, headAxis, countsPlaces };
  const isStaged = stepsOf(plan, runStagesKey).length > 0;
  let latest: readonly CollectivePlan[] = [];
  return {
    planned: (now) => mapStepsOver(now, cutSequences, axis, (step) => step.with({ latest })),
    beforeForward(inputs) {
      forEachTensor(inputs, (tensor) => {
        if (tensor.node.axisTypes?.byAxis.has(axis) === true) return;
        declareAxisTypes(tensor, { [axis]: 'replicate' });
      });
    },
    forward,
  };

  function forward<Inputs extends readonly unknown[], Output>(
    run: (...inputs: Inputs) => Output,
    inputs: Inputs,
  ): Output;
  function forward(
    run: (...inputs: readonly unknown[]) => unknown,
    inputs: readonly unknown[],
  ): unknown {
    const over = { ranks, neighbours, order };
    const cuts = new SequenceCuts(sequenceLengths(inputs, data.sequences), over);
    if (cuts.padded !== undefined && mixes !== null) throw paddedMixer(cuts.padded, axis, mixes);
    // A model that prepares its inputs, which have one sequence, also lengthens them.
    const length = cuts.all[0]?.paddedLength ?? 0;
    const own =
      sequences === undefined
        ? cutInputs(inputs, cuts, place)
        : cutInputs(sequences(inputs, length), new SequenceCuts([length], over), place);
    const messages = new ContextMessages();
    const output = inSequencePart(new ContextPart(cuts, place, messages), () => run(...own));
    const joined = joinOutputs(output, { cuts, ranks, axis, inputs: own, lossWeight, messages });
    if (isGradEnabled() && !isStaged) latest = messages.all;
    return joined;
  }
}

/** The path of a module for which padding would count, or null if there is none. */
function tokenMixer(model: PlanContext['model']): string | null {
  const found = model
    .namedModules()
    .find(([, module]) => module instanceof MixtureOfExperts || module instanceof BatchNorm);
  return found?.[0] ?? null;
}

function paddedMixer(cut: SequenceCut, axis: string, path: string): LayoutError {
  const { length, over } = cut;
  return new LayoutError(
    {
      asked: `a sequence of ${length} tokens on ${over.ranks} ranks of '${axis}'`,
      found: `the ranks do not divide it, and '${path}' would count tokens of padding`,
      todo: `Use lengths that are multiples of ${cut.multiple}`,
    },
    { axis, length },
  );
}

/** Throws LayoutError if nothing averages gradients over the axis, because the ranks' parameters would drift apart. */
function requireShared({ axis }: CutSequences, { plan }: PlanContext): void {
  const isShared = axisUsesOf(plan).some(
    (use) => use.axis === axis && (use.divides === 'batch' || use.divides === 'layers and batch'),
  );
  if (isShared) return;
  throw planError(
    plan,
    {
      asked: `that cuts sequences over '${axis}'`,
      found: `no strategy shares the parameters over '${axis}', so each rank would train its own copy`,
      todo: `Compose it with one that does: compose(contextParallel(), ddp({ axis: '${axis}' })), or fsdp({ axis: 'dp', replicas: '${axis}' })`,
    },
    { axis },
  );
}

/**
 * Throws LayoutError for a model that says how it is divided, but not how its sequences can be cut, and for sequences of a model
 * that prepares its inputs itself.
 */
function requireKnownModel({ axis, sequences }: CutSequences, { plan, model }: PlanContext): void {
  const division = model.division?.();
  if (division === undefined) return;
  const name = model.constructor.name;
  const context = { axis, model: name };
  const asked = `that cuts sequences over '${axis}'`;
  if (division.sequences === undefined) {
    throw planError(
      plan,
      {
        asked,
        found: `a ${name}, which does not say how its sequences can be cut: what it returns may mix tokens`,
        todo: 'Use a model of tokens, such as a language model, or put its layers into a module of your own',
      },
      context,
    );
  }
  if (sequences === undefined) return;
  throw planError(
    plan,
    {
      asked: `${asked}, of which the option sequences says which inputs these are`,
      found: `a ${name}, which says so itself`,
      todo: 'Leave the option out',
    },
    context,
  );
}
