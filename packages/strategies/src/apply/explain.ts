import {
  checkOptions,
  type CollectivePlan,
  dtypes,
  formatLayout,
  formatShape,
  option,
  type OptionRules,
  type Plan,
  type VaryingSize,
  varyingSizes,
} from '@shardwise/core/extend';
import { checkPlan } from './check-plan.ts';
import { redistributionRows } from './redistribution-rows.ts';
import { describeFormula, describeImbalance, memoryRows } from '../memory/describe-memory.ts';
import { localElements } from '../memory/local-bytes.ts';
import {
  type PlanMemory,
  planMemory,
  type PlanMemoryOptions,
  planMemoryRules,
} from '../memory/plan-memory.ts';
import { type AttentionSizes, attentionSizesRules } from '../plan/attention-sizes.ts';
import { requirePlan } from '../plan/plan-error.ts';
import { collectedDtypeOf } from '../plan/planned-bytes.ts';
import { collectivesOf, Step } from '../plan/step.ts';
import { textTable } from '../plan/text-table.ts';

/** Options of `explain`. */
export interface ExplainOptions extends PlanMemoryOptions {
  /** How the ranks reach each other, and why: `transport` of the result of `init`. Default: not known. */
  readonly transport?: { readonly kind: string; readonly reason: string };
  /**
   * The sizes of attention, for `contextParallel`: what a rank sends and keeps in each layer is then known before the first
   * pass. Default: not known.
   */
  readonly attention?: AttentionSizes;
}

const explainRules: OptionRules<ExplainOptions> = {
  ...planMemoryRules,
  transport: option.object('what init() calls transport'),
  attention: option.object('the sizes of attention'),
};

const phases = ['start', 'forward', 'backward', 'optimizer'] as const;

/**
 * Returns the messages that concern parameters as rows of a table, in the order of a training step. Messages of the
 * same kind that one step of the plan sends are one row.
 */
function collectiveRows(plan: Plan): readonly (readonly string[])[] {
  const perStep = plan.steps.map((step) => {
    const own = step.collectives(plan).filter(({ redistribution, operation }) => {
      // The messages between stages are in the table of their schedule.
      return redistribution === undefined && operation !== 'send' && operation !== 'recv';
    });
    return [
      ...Map.groupBy(own, ({ when, everySteps = 1, operation, axis }) => {
        return `${when} ${everySteps} ${operation} ${axis}`;
      }).values(),
    ];
  });
  const isMirrored = (groups: readonly (readonly CollectivePlan[])[]): boolean =>
    groups.some(([first]) => first?.when === 'forward');
  // The backward pass reaches units in the reverse order of the forward pass.
  const mirrored = perStep.filter(isMirrored).toReversed();
  const inOrder = { start: perStep, forward: perStep, optimizer: perStep };
  const orders = {
    ...inOrder,
    backward: [...mirrored, ...perStep.filter((each) => !isMirrored(each))],
  };
  return phases.flatMap((phase) =>
    orders[phase].flatMap((groups) =>
      groups.flatMap((group) => {
        const [first] = group;
        if (first?.when !== phase) return [];
        const { operation, axis, everySteps = 1 } = first;
        const often = everySteps === 1 ? '' : `, every ${everySteps}`;
        const names = new Set(group.flatMap(({ parameters }) => parameters));
        const bytes = group.reduce((sum, each) => sum + each.bytes, 0);
        const of = names.size === 0 ? 'buffers' : countOf(names.size);
        return [[`${phase}${often}`, operation, axis, of, String(bytes)]];
      }),
    ),
  );
}

function countOf(parameters: number): string {
  return parameters === 1 ? '1 parameter' : `${parameters} parameters`;
}

/** Describes a size in this rank's programs for which one plan serves several values. */
function describeSize({ of, line, from, to, max, isDeclared }: VaryingSize): string {
  const place = line === null ? '' : ` at ${line}`;
  const seen = from === to ? `${from}` : `${from} to ${to}`;
  return `size that varies: ${of}${place}, ${seen} so far, ${isDeclared ? 'declared' : 'planned'} up to ${max}`;
}

/**
 * Prints a plan as tables: the layouts of each parameter and its gradient, the messages of a step for parameters and
 * for redistributing the activations of each layer (with the `transport`, if given), and what a rank keeps, with the
 * formula of its states. After some steps it also lists the sizes that vary on this rank. Bytes are per rank; those of
 * a redistribution are of the whole activation.
 */
export function explain(plan: Plan, options: ExplainOptions = {}): string {
  checkOptions('explain', options, explainRules);
  requirePlan('explain', plan);
  checkPlan(plan);
  const { transport, attention, ...memoryOptions } = options;
  if (attention !== undefined) checkOptions('explain', attention, attentionSizesRules);
  const mesh = plan.axes.map(({ name, size }) => `${name}=${size}`).join(' × ');
  const parameters = plan.parameters.map((p) => [
    p.name,
    p.dtype,
    formatShape(p.shape),
    formatLayout(p.parameter),
    p.requiresGrad ? formatLayout(p.gradient) : 'frozen',
    String(
      localElements(p.shape, p.parameter, plan.axes) * dtypes[collectedDtypeOf(plan, p)].bytes,
    ),
  ]);
  const collectives = collectiveRows(plan);
  const redistributions = redistributionRows(collectivesOf(plan));
  const traffic = [
    ...(collectives.length === 0
      ? []
      : [textTable([['when', 'collective', 'axis', 'of', 'bytes'], ...collectives])]),
    ...(redistributions.length === 0
      ? []
      : [
          textTable([
            ['layer', 'layers', 'activation', 'axis', 'forward', 'backward', 'bytes'],
            ...redistributions,
          ]),
        ]),
  ];
  const way = transport && `transport: ${transport.kind} (${transport.reason})`;
  const memory = planMemory(plan, memoryOptions);
  const draws = plan.sharesDraws === true ? '; its parts share random numbers' : '';
  const precision = plan.autocast === undefined ? '' : `; products in ${plan.autocast.dtype}`;
  return [
    `${plan.strategy} on ${mesh || 'one rank'}; batch: ${formatLayout(plan.batch)}${draws}${precision}`,
    '',
    textTable([['parameter', 'dtype', 'shape', 'layout', 'gradient', 'bytes'], ...parameters]),
    '',
    traffic.join('\n\n') || noTraffic(plan),
    ...plan.steps.flatMap((step) => {
      const text = step instanceof Step ? step.explain(plan, attention) : '';
      return text === '' ? [] : ['', text];
    }),
    ...(way === undefined ? [] : [way]),
    ...varyingSizes().map(describeSize),
    '',
    textTable(memoryRows(memory)),
    '',
    ...describeAssumption(memory, memoryOptions),
    describeFormula(memory),
    ...describeImbalance(plan, memoryOptions),
  ].join('\n');
}

function noTraffic({ axes }: Plan): string {
  return axes.every(({ size }) => size === 1)
    ? 'no communication: every axis has one rank'
    : 'no communication';
}

/** A plan does not know the optimizer. Says which one was assumed, if the caller said nothing. */
function describeAssumption(
  { optimizerBytes }: PlanMemory,
  { optimizerTensors }: PlanMemoryOptions,
): readonly string[] {
  if (optimizerTensors !== undefined || optimizerBytes === 0) return [];
  return [
    'optimizer states: assumed to be those of Adam; give { optimizerTensors } for another optimizer',
  ];
}
