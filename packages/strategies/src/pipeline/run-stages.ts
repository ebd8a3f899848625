import {
  type CollectivePlan,
  ConfigError,
  currentSession,
  joinLayouts,
  noGrad,
  type Parameter,
  type Plan,
  type ProcessGroup,
  replicated,
} from '@shardwise/core/extend';
import { reduce } from '../distributed-data-parallel/reduce.ts';
import { localElements } from '../memory/local-bytes.ts';
import { initialContents } from '../parameters/initial-contents.ts';
import { formatAction } from '../pipeline-schedule/actions/action-text.ts';
import { range, type Schedule } from '../pipeline-schedule/actions/schedule.ts';
import { explainSchedule } from '../pipeline-schedule/views/explain-schedule.ts';
import { PipelinePasses } from './passes/pipeline-passes.ts';
import { type RunStages, runStagesKey } from './run-stages-key.ts';
import { StageMarks } from './stages/stage-marks.ts';
import { type StageOwner, stageParameter } from './stages/stage-parameter.ts';
import type { PassMessage } from './work/pass-messages.ts';
import { requireOneStep } from '../plan/agreeing-steps.ts';
import { requireUnaveraged } from '../plan/averaged-parameters.ts';
import { ofRankZero, broadcastKeys } from '../plan/from-rank-zero.ts';
import type { PassHooks, PlanContext } from '../plan/plan-context.ts';
import { planError } from '../plan/plan-error.ts';
import { shardingOf, startBroadcasts } from '../plan/planned-bytes.ts';
import { requireSameLines, requireSameModel } from '../plan/same-model.ts';
import { dividesOnlyBatch, type ModelPlan, Step, type StepKind, stepsOf } from '../plan/step.ts';

/** The kind of the step `RunStages`. */
export const runStages: StepKind<RunStages> = {
  name: runStagesKey.name,
  key: runStagesKey,
  collectives({ axis, messages = [], latest }, plan): readonly CollectivePlan[] {
    const ofLoss = latest?.lossMessages ?? [];
    const only = { axis, rank: latest?.lossRank ?? 0 };
    return [
      ...startBroadcasts(plan, { axis }),
      ...messages.flatMap((message) => sendAndReceive(message, axis, plan)),
      ...ofLoss.map((each) => ({ ...each, when: 'forward' as const, parameters: [], only })),
    ];
  },
  explain: ({ axis, schedule, costs, edges, liveBytes }, plan) =>
    explainSchedule(schedule, costs, edges, {
      parameters: range(schedule.ranks).map((rank) => parametersOf(plan, axis, rank)),
      ...(liveBytes === undefined ? {} : { liveBytes }),
    }),
  precedes: (_, other) => dividesOnlyBatch(other),
  check(_, context) {
    requireOneStep(context.plan, runStages);
    if (context.plan.lowPrecision?.castForwardInputs === true) throw castInputs();
    const asked = `${context.plan.strategy} of a model`;
    requireUnaveraged(asked, context.parameters);
    requireUnusedWhole(context);
  },
  async apply({ axis, cut, schedule, loss, weight, deferredBatchNorm = false }, context) {
    const { model, hooks } = context;
    const session = currentSession();
    const group = session.mesh.group(axis);
    await requireSameModel(context, group);
    await requireSameStages(cut, schedule, group);
    await broadcastKeys(group);
    const replacements = new Map<Parameter, Parameter>();
    for (const [name, parameter] of context.parameters) {
      replacements.set(parameter, await placeInStage(name, parameter, axis, context));
    }
    model.replaceParameters(replacements);
    for (const [, buffer] of model.namedBuffers()) {
      noGrad(() => buffer.assign(ofRankZero(buffer, [axis])));
    }
    await session.realize([]);
    const messages = `${axis} messages`;
    await session.extendMesh(
      messages,
      axis,
      async (ranks) => (await ranks.split(0, ranks.rank)) ?? ranks,
    );
    const marks = new StageMarks(model, cut);
    const passes = new PipelinePasses({
      axis,
      model,
      schedule,
      place: { rank: group.rank, rankOfStage: schedule.rankOfStage },
      marks,
      owners: context.parameters.map(([name]) => ownerOf(name, axis, context).rank),
      loss,
      weight,
      defersBatchNorm: deferredBatchNorm,
      activationDtype: context.plan.autocast?.dtype ?? null,
      group: session.mesh.group(messages),
    });
    hooks.push({
      forward: passHook(passes),
      planned: (plan) => withSeen(plan, passes),
      detach: () => marks.detach(),
    });
  },
};

/** Throws LayoutError if each pass of a step would have to reduce parts of gradients that it does not have. */
function requireUnusedWhole(context: PlanContext): void {
  const { plan } = context;
  for (const { data } of stepsOf(plan, reduce)) {
    if (data.unused !== 'any') continue;
    const sharded = data.parameters.find(
      (name) => shardingOf(context.plannedOf(name), 'optimizer', data.axis) !== null,
    );
    if (sharded === undefined) continue;
    throw planError(
      plan,
      {
        asked: `that reduces the gradient of '${sharded}' in each pass (findUnusedParameters)`,
        found: `ranks have parts of it, and a pipeline makes several passes of each`,
        todo: 'Leave findUnusedParameters out, and use all parameters of a stage on all of its ranks',
      },
      { parameter: sharded, axis: data.axis },
    );
  }
}

/**
 * Returns the error for castForwardInputs. Each rank builds all stages with its own parameters in fewer bits, but only
 * with f32 shapes of the others.
 */
function castInputs(): ConfigError {
  return new ConfigError({
    asked: 'a pipeline with parameters and activations in fewer bits',
    found:
      'castForwardInputs: true, for which each stage would have to know the casts of the others',
    todo: "Leave castForwardInputs out, or use mixedPrecision: { computeDtype: 'bf16' }, which also halves the messages between stages",
  });
}

/**
 * Compares cuts and schedule of the ranks. Ranks that balanced times which each measured by itself would cut
 * differently, and then wait for each other forever.
 */
async function requireSameStages(
  cut: readonly string[],
  schedule: Schedule,
  group: ProcessGroup,
): Promise<void> {
  const lines = [
    `cuts at ${cut.join(', ') || 'no module'}`,
    ...schedule.actions.map((own) => `the actions ${own.map(formatAction).join(' ')}`),
  ];
  await requireSameLines(lines, group, {
    asked: 'to cut one model into stages on all ranks',
    line: 'line',
    todo: 'Give all ranks the same cuts, schedule and costs: measureModelCosts() gives all the same',
  });
}

/** Returns the two sides of a message. */
function sendAndReceive(
  { from, to, when, bytes, parameters }: PassMessage,
  axis: string,
  plan: Plan,
): readonly CollectivePlan[] {
  const names = parameters.flatMap((index) => plan.parameters[index]?.name ?? []);
  const common = { axis, when, parameters: names, bytes };
  return [
    { ...common, operation: 'send', only: { axis, rank: from } },
    { ...common, operation: 'recv', only: { axis, rank: to } },
  ];
}

/** Returns the plan with the facts that passes have shown. */
function withSeen(
  plan: ModelPlan,
  { edges, liveBytes, messages, latest }: PipelinePasses,
): ModelPlan {
  const seen = {
    ...(latest === null ? {} : { latest }),
    ...(messages === null ? {} : { messages }),
    ...(edges === null ? {} : { edges }),
    ...(liveBytes === null ? {} : { liveBytes }),
  };
  const steps = plan.steps.map((step) => (Step.is(step, runStages) ? step.with(seen) : step));
  return { ...plan, steps };
}

/** Returns the number of elements of the parameters that a rank of an axis keeps. */
function parametersOf({ parameters, axes }: Plan, axis: string, rank: number): number {
  const own = parameters.filter(({ parameter: { only } }) => {
    return only === undefined || only.axis !== axis || only.rank === rank;
  });
  return own.reduce((sum, { shape, parameter }) => sum + localElements(shape, parameter, axes), 0);
}

/**
 * Makes the stand-in for a parameter. The rank of its stage gets rank 0's values, or the part that it has constructed.
 * The other ranks drop their values.
 */
async function placeInStage(
  name: string,
  parameter: Parameter,
  axis: string,
  context: PlanContext,
): Promise<Parameter> {
  const { part } = parameter;
  const owner = ownerOf(name, axis, context);
  const isHere = currentSession().mesh.coordinate(axis) === owner.rank;
  const layout = joinLayouts(part.layout, { ...replicated(part.shape), only: owner });
  const { wholeShape, dtype, requiresGrad } = part;
  const options = { wholeShape, layout, dtype, requiresGrad, isHere };
  const { initialPart } = parameter;
  if (initialPart !== null) {
    const data = isHere ? initialContents(initialPart, options) : null;
    const replacement = stageParameter(data, parameter, options);
    if (isHere && data === null) replacement.initialPart = initialPart;
    return replacement;
  }
  const value = noGrad(() => ofRankZero(part, [axis]));
  const data = (await value.data()).slice();
  const replacement = stageParameter(isHere ? data : null, parameter, options);
  value.dispose();
  parameter.dispose();
  return replacement;
}

function ownerOf(name: string, axis: string, context: PlanContext): StageOwner {
  return context.plannedOf(name).parameter.only ?? { axis, rank: 0 };
}

function passHook(passes: PipelinePasses): NonNullable<PassHooks['forward']> {
  return forward;

  function forward<Inputs extends readonly unknown[], Output>(
    run: (...inputs: Inputs) => Output,
    inputs: Inputs,
  ): Output;
  function forward(
    run: (...inputs: readonly unknown[]) => unknown,
    inputs: readonly unknown[],
  ): unknown {
    return passes.forward(run, inputs);
  }
}
