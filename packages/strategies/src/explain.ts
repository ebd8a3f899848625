import {
  checkOptions,
  type DType,
  dtypes,
  formatShape,
  type Layout,
  option,
  type OptionRules,
  type Plan,
} from '@shardwise/core/extend';
import { checkPlan } from './check-plan.ts';
import { describeFormula, memoryRows } from './memory/describe-memory.ts';
import { describeImbalance } from './memory/describe-imbalance.ts';
import { localElements } from './memory/local-bytes.ts';
import { planMemory, type PlanMemoryOptions, planMemoryRules } from './memory/plan-memory.ts';
import { redistributionRows } from './redistribution-rows.ts';

export interface ExplainOptions extends PlanMemoryOptions {
  /** How the ranks reach each other, and why so: `transport` of what `init` returns. Default: not known. */
  readonly transport?: { readonly kind: string; readonly reason: string };
}

const explainRules: OptionRules<ExplainOptions> = {
  ...planMemoryRules,
  transport: option.object('what init() calls transport'),
};

/** A layout as text: `replicate`, `shard(0: dp)`, `shard(flat: dp)`, `varying(dp)`, `only(dp: 0)`, `partial(dp)`. */
export function formatLayout(layout: Layout): string {
  const shards = layout.dims.flatMap((axes, dim) =>
    axes.length > 0 ? [`shard(${dim}: ${axes.join('·')})`] : [],
  );
  const { flat = [], varying = [] } = layout;
  if (flat.length > 0) shards.push(`shard(flat: ${flat.join('·')})`);
  if (varying.length > 0) shards.push(`varying(${varying.join('·')})`);
  if (layout.only !== undefined) shards.push(`only(${layout.only.axis}: ${layout.only.rank})`);
  const partial = layout.partial.length > 0 ? [`partial(${layout.partial.join('·')})`] : [];
  return [...shards, ...partial].join(' ') || 'replicate';
}

function table(rows: readonly (readonly string[])[]): string {
  const widths = (rows[0] ?? []).map((_, column) =>
    Math.max(...rows.map((row) => (row[column] ?? '').length)),
  );
  return rows
    .map((row) =>
      row
        .map((cell, column) => cell.padEnd(widths[column] ?? 0))
        .join('  ')
        .trimEnd(),
    )
    .join('\n');
}

function countOf(parameters: number): string {
  return parameters === 1 ? '1 parameter' : `${parameters} parameters`;
}

/**
 * A plan as tables: how each parameter and its gradient lie, what a step communicates for parameters
 * and to redistribute the activations of each layer (and by what, where `transport` tells), and what a
 * rank keeps, with the formula of its states. Bytes are per rank; those of a redistribution are of the
 * whole activation.
 */
export function explain(plan: Plan, options: ExplainOptions = {}): string {
  checkOptions('explain', options, explainRules);
  checkPlan(plan);
  const unitBytes = (dtype: DType): number =>
    dtypes[plan.lowPrecision?.parameterDtype ?? dtype].bytes;
  const mesh = plan.axes.map(({ name, size }) => `${name}=${size}`).join(' × ');
  const parameters = plan.parameters.map((p) => [
    p.name,
    p.dtype,
    formatShape(p.shape),
    formatLayout(p.parameter),
    p.requiresGrad ? formatLayout(p.gradient) : 'frozen',
    String(localElements(p.shape, p.parameter, plan.axes) * unitBytes(p.dtype)),
  ]);
  const collectives = plan.collectives
    .filter(({ redistribution }) => redistribution === undefined)
    .map((c) => [c.when, c.operation, c.axis, countOf(c.parameters.length), String(c.bytes)]);
  const redistributions = redistributionRows(plan.collectives);
  const traffic = [
    ...(collectives.length === 0
      ? []
      : [table([['when', 'collective', 'axis', 'of', 'bytes'], ...collectives])]),
    ...(redistributions.length === 0
      ? []
      : [
          table([
            ['layer', 'layers', 'activation', 'axis', 'forward', 'backward', 'bytes'],
            ...redistributions,
          ]),
        ]),
  ];
  const { transport, ...memoryOptions } = options;
  const way = transport && `transport: ${transport.kind} (${transport.reason})`;
  const memory = planMemory(plan, memoryOptions);
  return [
    `${plan.strategy} on ${mesh || 'one rank'}; batch: ${formatLayout(plan.batch)}`,
    '',
    table([['parameter', 'dtype', 'shape', 'layout', 'gradient', 'bytes'], ...parameters]),
    '',
    traffic.join('\n\n') || 'no communication',
    ...(way === undefined ? [] : [way]),
    '',
    table(memoryRows(memory)),
    '',
    describeFormula(memory),
    ...describeImbalance(plan, memoryOptions),
  ].join('\n');
}
