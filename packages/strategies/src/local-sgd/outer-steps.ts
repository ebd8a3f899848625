import {
  axisSize,
  type CollectivePlan,
  ConfigError,
  currentSession,
  dtypes,
  elementCount,
  firstPlace,
  localShape,
  noGrad,
  type Parameter,
  type ParameterPlan,
  type Plan,
  type ProcessGroup,
} from '@shardwise/core/extend';
import { requireOneStep } from '../plan/agreeing-steps.ts';
import { markAveraged, requireUnaveraged } from '../plan/averaged-parameters.ts';
import { ofRankZero } from '../plan/from-rank-zero.ts';
import { planError } from '../plan/plan-error.ts';
import { plannedParameters, startBroadcasts } from '../plan/planned-bytes.ts';
import { requireSameModel } from '../plan/same-model.ts';
import type { PlanContext } from '../plan/plan-context.ts';
import { axisUsesOf, Step, type StepKind } from '../plan/step.ts';
import { Fragment, type FragmentParameter } from './fragment.ts';
import type { Aggregation, AggregationRule } from './aggregation/aggregate.ts';
import type { AuditOptions } from './members/audit-options.ts';
import { AuditedRounds } from './audited-rounds.ts';
import { requireAuditable } from './members/require-auditable.ts';
import { ChangingGroup } from './members/changing-group.ts';
import { FixedGroup } from './members/fixed-group.ts';
import { MemberRanks } from './members/member-ranks.ts';
import type { Members } from './members/members.ts';
import type { OuterGroup } from './members/outer-group.ts';
import { memberMessageBytes, runDescription } from './members/run-description.ts';
import { agreementMessages, type OuterBits } from './messages/outer-messages.ts';
import type { OuterState } from './outer-state.ts';
import { type Every, everyText, MeetingClock, periodOf } from './members/meeting-times.ts';
import { OuterUpdater } from './outer-updater.ts';
import type { OuterSettings } from './outer-optimizer-settings.ts';

/**
 * Ranks train separately on their batches. After every few updates, they go on from values that they agree on: with the
 * settings of an outer optimizer, from its result, and without them from the mean of their values.
 */
export interface OuterSteps extends Partial<OuterSettings> {
  readonly axis: string;
  /** The time between two outer steps of a parameter. */
  readonly every: Every;
  /** The names of the parameters of each fragment. Fragments take turns. */
  readonly fragments: readonly (readonly string[])[];
  /** The number of updates between the message of a fragment and its outer step. */
  readonly fragmentSyncDelay: number;
  /** The share of its own values that a rank keeps in an outer step, from 0 to 1. */
  readonly fragmentUpdateAlpha: number;
  /** The bits of an element in messages. */
  readonly bits: OuterBits;
  /** How ranks make one outer gradient of those of all. */
  readonly aggregate: AggregationRule;
  /** The number of ranks whose outer gradients may be anything. */
  readonly faulty: number;
  readonly state: OuterState;
  /** How others can make this member's updates again. Null: they cannot. */
  readonly audit: AuditOptions | null;
  /** Who meets, if it is not the ranks of the axis. Null: these. */
  readonly members: Members | null;
  /** Whether what each has learned counts by its tokens. */
  readonly weighted: boolean;
}

/** The kind of the step `OuterSteps`. */
export const outerSteps: StepKind<OuterSteps> = {
  name: 'outerSteps',
  collectives: (data, plan) =>
    data.members === null
      ? [...startBroadcasts(plan, { axis: data.axis }), ...meetings(data, plan)]
      : [],
  axisUses: ({ axis, members }) => (members === null ? [{ axis, divides: 'batch' }] : []),
  // The ranks of a member may update parts of the parameters.
  follows: ({ members }, other) => members !== null && !Step.is(other, outerSteps),
  explain(data, plan) {
    const ranks = axisSize(plan.axes, data.axis);
    if (data.members !== null) return describeMembers(data, plan);
    if (ranks === 1) return '';
    const sent = meetings(data, plan).reduce((sum, each) => sum + sentBytes(each, ranks), 0);
    const times = everyText(data.every);
    const own = typeof data.every === 'number' ? sent / data.every : 0;
    const elements = data.fragments.reduce((sum, names) => sum + elementsOf(plan, names), 0);
    const bytes = elements * dtypes.f32.bytes;
    const all = sentBytes({ operation: 'allReduce', bytes }, ranks);
    const parts = data.fragments.length === 1 ? '' : `, in ${data.fragments.length} fragments`;
    const ratio = own === 0 ? '' : `, 1/${Number((all / own).toPrecision(3))}`;
    return [
      `outer steps: ${times}${parts}`,
      `bytes that a rank sends per step, in the mean: ${Math.round(own)}; ddp: ${Math.round(all)}${ratio}`,
    ].join('\n');
  },
  check(data, context) {
    const { plan, parameters } = context;
    requireOneStep(plan, outerSteps);
    requireUnaveraged(`${plan.strategy} of a model`, parameters);
    const other = parameters.find(([, { dtype, requiresGrad }]) => requiresGrad && dtype !== 'f32');
    if (other !== undefined) throw dtypeError(plan.strategy, ...other);
    requireMeetings(data, plan);
  },
  async apply(data, context) {
    const { axis, every, bits, members } = data;
    const { fragmentUpdateAlpha: alpha, fragmentSyncDelay: delay } = data;
    const { plan } = context;
    const session = currentSession();
    const group = session.mesh.group(members === null ? axis : axisOfMember(plan, axis));
    await requireSameModel(context, group);
    const parts = new Map(context.heldParameters.map(([name, { part }]) => [name, part]));
    if (members === null) {
      noGrad(() => {
        for (const part of parts.values()) part.assign(ofRankZero(part, [axis]));
      });
      await session.realize([]);
    }
    const fragments = data.fragments.map(
      (names) =>
        new Fragment(
          names.flatMap((name): FragmentParameter[] => {
            const part = parts.get(name);
            return part === undefined ? [] : [[name, part]];
          }),
          members !== null,
        ),
    );
    const own = await meetingGroup(data, context, group);
    const updater = new OuterUpdater(
      plan.strategy,
      fragments,
      { group: own, outer: outerOf(data), bits, alpha },
      new MeetingClock({ period: periodOf(every, fragments.length), delay }, () => own.now()),
      auditedRounds(data, plan.strategy, fragments),
    );
    data.state.attach({ updater, ranks: own.parts });
    const trained = context.parameters.map(([, parameter]) => parameter);
    // Also frozen parameters, which an optimizer may have among those that train.
    for (const part of parts.values()) part.updater = updater;
    const unmark = markAveraged(plan.strategy, trained);
    context.hooks.push({
      detach() {
        unmark();
        for (const part of parts.values()) part.updater = null;
      },
    });
  },
};

function auditedRounds(
  { audit, every, bits }: OuterSteps,
  strategy: string,
  [fragment]: readonly Fragment[],
): AuditedRounds | null {
  if (audit === null || fragment === undefined || typeof every !== 'number') return null;
  return new AuditedRounds({ strategy, audit, every, bits }, fragment);
}

/** Those who meet in outer steps: members that come and go, or the ranks of a group. */
async function meetingGroup(
  data: OuterSteps,
  { plan }: PlanContext,
  group: ProcessGroup,
): Promise<OuterGroup> {
  const { bits, fragments, members } = data;
  const agreement = { bits, aggregation: aggregationOf(data) };
  if (members === null) {
    // Messages that training does not wait for must not hold up other calls of the program.
    const own = (await group.split(0, group.rank)) ?? group;
    return new FixedGroup(plan.strategy, own, agreement);
  }
  const elements = fragments.map((names) => wholeElements(plan, names));
  const description = runDescription(data, plan, elements);
  const { weighted: isWeighted, audit } = data;
  const isAudited = audit !== null;
  const member = new ChangingGroup(members, description, {
    ...agreement,
    elements,
    isAudited,
    isWeighted,
  });
  if (group.size === 1) return member;
  const agreements = (await group.split(0, group.rank)) ?? group;
  const checks = (await group.split(0, group.rank)) ?? group;
  const { stateBytes } = description;
  const { strategy } = plan;
  return new MemberRanks(member, { strategy, agreements, checks, elements, stateBytes });
}

/** The axis of the ranks of a member: the only one that has several, or else the given one. */
function axisOfMember({ axes }: Plan, axis: string): string {
  return axes.find(({ size }) => size > 1)?.name ?? axis;
}

/** The elements of these parameters, of which a rank may have parts. */
function wholeElements(plan: Plan, names: readonly string[]): number {
  return plannedParameters(plan, names).reduce((sum, { shape }) => sum + elementCount(shape), 0);
}

/** What a member sends, and what it gets from each other one. */
function describeMembers({ every, fragments, bits, weighted }: OuterSteps, plan: Plan): string {
  const bytes = fragments.reduce(
    (sum, names) => sum + memberMessageBytes(wholeElements(plan, names), bits, weighted),
    0,
  );
  const sent =
    typeof every === 'number'
      ? `per step, in the mean: ${Math.round(bytes / every)}`
      : `in this time: ${bytes}`;
  return [
    `outer steps: ${everyText(every)}, with members that come and go`,
    `bytes that a member sends ${sent}; it gets as many from each other member`,
  ].join('\n');
}

function outerOf({ lr, momentum, nesterov }: OuterSteps): OuterSettings | null {
  const isComplete = lr !== undefined && momentum !== undefined && nesterov !== undefined;
  return isComplete ? { lr, momentum, nesterov } : null;
}

function aggregationOf({ aggregate: rule, faulty }: OuterSteps): Aggregation {
  return { rule, faulty };
}

/** The messages of all fragments, each of which is sent once in `every` updates. */
function meetings(data: OuterSteps, plan: Plan): CollectivePlan[] {
  const { axis, every, fragments, bits } = data;
  // Members have no collectives.
  if (typeof every !== 'number') return [];
  const agreement = { bits, aggregation: aggregationOf(data) };
  const ranks = axisSize(plan.axes, axis);
  return fragments.flatMap((parameters) =>
    agreementMessages(elementsOf(plan, parameters), ranks, agreement).map(
      (message): CollectivePlan => {
        return { ...message, axis, when: 'optimizer', everySteps: every, parameters };
      },
    ),
  );
}

/** The elements that a rank has of these parameters. */
function elementsOf(plan: Plan, names: readonly string[]): number {
  return plannedParameters(plan, names).reduce((sum, { shape, optimizer }: ParameterPlan) => {
    return sum + elementCount(localShape(shape, optimizer, firstPlace(plan.axes)));
  }, 0);
}

/** The bytes that a rank sends in a message by algorithms that send the fewest. */
function sentBytes(
  { operation, bytes }: Pick<CollectivePlan, 'operation' | 'bytes'>,
  ranks: number,
): number {
  return ((ranks - 1) / ranks) * bytes * (operation === 'allReduce' ? 2 : 1);
}

/** Throws LayoutError for times that do not fit each other, and for a parameter that would stay apart. */
function requireMeetings(data: OuterSteps, plan: Plan): void {
  const { every, fragments, fragmentSyncDelay: delay } = data;
  const period = typeof every === 'number' ? every / fragments.length : null;
  const asked = `with outer steps of ${fragments.length} fragments ${everyText(every)}`;
  if (period !== null && (!Number.isSafeInteger(period) || period < 1)) {
    const found = `${period} updates for each fragment`;
    throw planError(plan, { asked, found, todo: 'Make `every` a multiple of the fragments' });
  }
  if (period !== null && delay >= period) {
    const found = `a fragmentSyncDelay of ${delay}, and the next fragment is sent after ${period} updates`;
    const todo = `Use a fragmentSyncDelay of at most ${period - 1}, fewer fragments, or a larger 'every'`;
    throw planError(plan, { asked, found, todo }, { delay, period });
  }
  const ranks = data.members === null ? axisSize(plan.axes, data.axis) : 1;
  if (ranks > 1 && ranks <= 2 * data.faulty) {
    const found = `${ranks} ranks, of which ${data.faulty} may be faulty`;
    const todo = `Use more than ${2 * data.faulty} ranks: the majority must be right`;
    throw planError(plan, { asked, found, todo }, { ranks, faulty: data.faulty });
  }
  requireMembers(data, plan);
  requireAuditable(data, plan);
  const named = fragments.flat();
  const apart = plan.parameters.find(({ name, requiresGrad }) => {
    return requiresGrad && !named.includes(name);
  });
  if (apart === undefined && new Set(named).size === named.length) return;
  const todo = 'Name each parameter that trains in one fragment';
  const found = apart === undefined ? 'a parameter in two of them' : `'${apart.name}' in none`;
  throw planError(plan, { asked, found, todo });
}

/** Throws LayoutError for members of several ranks that do not share their work, or on several axes. */
function requireMembers({ members, audit }: OuterSteps, plan: Plan): void {
  if (members === null) return;
  const asked = 'with members that come and go';
  const [first, ...others] = plan.axes.filter(({ size }) => size > 1);
  if (first === undefined) return;
  const { name, size } = first;
  const found = `${size} ranks of '${name}' in this program`;
  const todo = 'Start the program once for each member, with one rank';
  if (others.length > 0) {
    const more = others.map((each) => `${each.size} of '${each.name}'`).join(' and ');
    throw planError(plan, { asked, found: `${found}, and ${more}`, todo });
  }
  if (!axisUsesOf(plan).some(({ axis, divides }) => axis === name && divides === 'batch')) {
    const share = 'let the ranks share its batches: compose(diloco({ members }), ddp())';
    throw planError(plan, { asked, found, todo: `${todo}, or ${share}` }, { ranks: size });
  }
  const apart = plan.parameters.find(({ parameter }) => parameter.only !== undefined);
  if (apart !== undefined) {
    throw planError(
      plan,
      { asked, found: `${found}, of which one alone has '${apart.name}'`, todo },
      { parameter: apart.name },
    );
  }
  if (audit === null) return;
  throw planError(plan, {
    asked: `${asked}, and make updates of each other again (\`audit\`)`,
    found,
    todo,
  });
}

function dtypeError(strategy: string, name: string, { dtype }: Parameter): ConfigError {
  return new ConfigError(
    {
      asked: `${strategy} of the parameter '${name}' of ${dtype}`,
      found: 'outer steps, which are computed in f32',
      todo: 'Build the model in f32, and use autocast for products in fewer bits',
    },
    { parameter: name, dtype },
  );
}
