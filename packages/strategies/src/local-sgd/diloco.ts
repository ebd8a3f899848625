import { checkOptions, option, type OptionRules, requireVersion } from '@shardwise/core/extend';
import { aggregateRule, type Aggregate } from './aggregation/aggregate-option.ts';
import { type AuditOptions, checkAudit } from './members/audit-options.ts';
import type { StrategyWithOuterSteps } from './local-sgd.ts';
import { checkWeighted } from './members/check-weighted.ts';
import type { Members } from './members/members.ts';
import { everyRule } from './members/meeting-times.ts';
import { type OuterOptions, outerSettings } from './outer-optimizer-settings.ts';
import { outerPlan } from './outer-plan.ts';
import { OuterState } from './outer-state.ts';

/** Options of `diloco`. Those of fragments have the names of torchft. */
export interface DiLoCoOptions {
  /**
   * The number of updates that each rank makes by itself between two outer steps of a parameter. With `weighted`, it may be
   * a time.
   */
  readonly every: number | { readonly seconds: number };
  /** The settings of the outer optimizer. Default: SGD with lr 0.7 and a Nesterov momentum of 0.9, as in the paper. */
  readonly outer?: OuterOptions;
  /**
   * The number of fragments into which the model is cut. They take turns, so that a message is smaller and messages are
   * spread over the updates. It divides `every`. Default: 1.
   */
  readonly fragments?: number;
  /**
   * The number of updates between the message of a fragment and its outer step. Ranks go on with them while the message is
   * on its way. It is less than `every / fragments`. Each of `members` may have another one, by its link. Default: 0, so
   * that a rank waits for the message.
   */
  readonly fragmentSyncDelay?: number;
  /**
   * The share of its own values that a rank keeps in an outer step beside the new ones, from 0 to 1. With a delay, 0 gives
   * up what it has learned since the message. Default: 0.
   */
  readonly fragmentUpdateAlpha?: number;
  /**
   * The bits of an element of an outer gradient in messages. With 4 or 8, blocks of 256 elements have a scale each, and
   * what a message leaves out is added to the next one. Default: 32, which leaves nothing out.
   */
  readonly bits?: 4 | 8 | 32;
  /**
   * How ranks make one outer gradient of those of all. 'mean' takes what every rank sends. With the others, some ranks may
   * send anything, because of broken memory, bad data or a bad intention, as long as they are the minority; each rank then
   * gets the outer gradients of all. Default: 'mean'.
   */
  readonly aggregate?: Aggregate;
  /**
   * The members of a run that come and go, from `join` of `shardwise/together`. Each trains on data of its own. It is one
   * rank, or several that share its work by another strategy: `compose(diloco({ every, members }), fsdp())`. Default: the
   * ranks of the axis.
   */
  readonly members?: Members;
  /**
   * Whether what a member has learned counts by the tokens that it has learned from, which the loop says by
   * `strategy.outer.countTokens(tokens)`. An update of more than ten times the median counts as ten times it. It needs
   * `members` and the mean. Default: false.
   */
  readonly weighted?: boolean;
  /**
   * How this member makes its updates, so that a coordinator with `--audit` can have others make them again. The loop calls
   * `strategy.outer.update()`. Each round begins with a new inner optimizer, and messages of few bits owe nothing to later
   * ones. Default: none of this.
   */
  readonly audit?: AuditOptions;
  /** The mesh axis over which the batch is split. Default: `dp`. */
  readonly axis?: string;
}

const optionRules: OptionRules<DiLoCoOptions> = {
  every: option.required(everyRule),
  outer: option.object('settings of the outer optimizer, such as { lr: 0.7, momentum: 0.9 }'),
  fragments: option.integer(1),
  fragmentSyncDelay: option.count,
  fragmentUpdateAlpha: option.fraction,
  bits: option.oneOf(4, 8, 32),
  aggregate: option.checkedLater(),
  members: option.object('what join() of shardwise/together returns'),
  weighted: option.flag,
  audit: option.object('{ samples, batchSize, optimizer, step }'),
  axis: option.axisName,
};

/**
 * DiLoCo (Douillard et al. 2023), and with fragments Streaming DiLoCo (Douillard et al. 2025). Each rank trains its own
 * copy of the model on its part of the batch, with any optimizer. After every few updates, the mean of what the ranks have
 * learned, the outer gradient, is a step of an outer optimizer, from whose result all ranks go on. With `every: 1`, an
 * inner SGD, and an outer lr of 1 without momentum it is data parallelism. Throws ConfigError for options out of range.
 */
export function diloco(options: DiLoCoOptions): StrategyWithOuterSteps {
  checkOptions('diloco', options, optionRules);
  const { every, axis = 'dp', bits = 32, fragments = 1 } = options;
  const { fragmentSyncDelay = 0, fragmentUpdateAlpha = 0 } = options;
  const settings = outerSettings(options.outer ?? {});
  const { rule: aggregate, faulty } = aggregateRule(options.aggregate ?? 'mean');
  const strategy = 'diloco';
  const outer = new OuterState(strategy);
  const { members = null } = options;
  if (members !== null) requireVersion('diloco with members', members, 1);
  const audit = checkAudit(options.audit);
  const { weighted = false } = options;
  checkWeighted({
    every,
    weighted,
    hasMembers: members !== null,
    isMean: aggregate === 'mean',
    isAudited: audit !== null,
  });
  const times = { every, fragments, fragmentSyncDelay, fragmentUpdateAlpha };
  const common = { strategy, axis, ...times, bits, aggregate, faulty, ...settings };
  const data = { ...common, members, weighted, audit, state: outer };
  return {
    specificationVersion: 1,
    name: strategy,
    outer,
    plan: (model, axes) => outerPlan(data, model, axes),
  };
}
