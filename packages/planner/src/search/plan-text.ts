import { textTable } from '@shardwise/strategies';
import { deviceCount } from '../cluster/cluster.ts';
import { hostLink } from '../cost/group-link.ts';
import { memoryKinds } from '../cost/memory.ts';
import type { Prediction } from '../cost/predict.ts';
import { layoutText } from '../cost/run-layout.ts';
import { peakFlops, stepTermNames, stepTerms } from '../cost/step-time.ts';
import { parameterCount } from '../model/model-description.ts';
import { offloadedActivations } from './offloaded-activations.ts';
import type { TrainingPlan } from './plan-training.ts';
import { scriptLines } from './script-lines.ts';

/** Writes a plan for a terminal. */
export function planText(plan: TrainingPlan): string {
  const [best] = plan.ranked;
  const body =
    best === undefined ? nothingFits(plan) : [...rankedLines(plan), ...bestLines(plan, best)];
  return [heading(plan), '', ...body, ...prunedLines(plan)].join('\n');
}

function heading({ model, cluster, workload, memoryBytes }: TrainingPlan): string {
  const tokens = model.kind === 'transformer' ? ` of ${workload.sequence} tokens` : '';
  return `${model.name}, ${count(parameterCount(model))} parameters, on ${deviceCount(cluster)} × ${cluster.device.name} with ${gigabytes(memoryBytes)} for each; batch of ${workload.batch} rows${tokens}`;
}

function rankedLines(plan: TrainingPlan): readonly string[] {
  const rows = plan.ranked.map((each) => [
    layoutText(each.layout),
    seconds(each.stepSeconds),
    throughput(plan, each),
    percent(each.utilization.mfu),
    percent(each.utilization.hfu),
    gigabytes(each.memory.totalBytes),
  ]);
  const unit = plan.model.kind === 'transformer' ? 'tokens/s' : 'rows/s';
  return [textTable([['layout', 'step', unit, 'MFU', 'HFU', 'memory of a rank'], ...rows]), ''];
}

function bestLines(plan: TrainingPlan, best: Prediction): readonly string[] {
  const { terms, stepSeconds, memory, utilization } = best;
  const times = stepTerms
    .filter((term) => terms[term] > 0)
    .map((term) => [stepTermNames[term], seconds(terms[term]), percent(terms[term] / stepSeconds)]);
  const bytes = memoryKinds.map((kind) => [kind, gigabytes(memory.kinds[kind])]);
  const energy = [
    ...(best.joules === null ? [] : [`${(best.joules / 3.6e6).toPrecision(3)} kWh`]),
    ...(best.price === null ? [] : [`a price of ${best.price.toPrecision(3)}`]),
  ];
  const host = memory.hostBytes > 0 ? [['on its host', gigabytes(memory.hostBytes)]] : [];
  const where = best.layout.pipelineParallel > 1 ? ` of place ${memory.place} in the pipeline` : '';
  return [
    `The best: ${layoutText(best.layout)}`,
    '',
    textTable([['time of a step', '', ''], ...times, ['sum', seconds(stepSeconds), '']]),
    '',
    textTable([
      [`memory of a rank${where}`, ''],
      ...bytes,
      ['sum', gigabytes(memory.totalBytes)],
      ...host,
    ]),
    '',
    `MFU counts ${utilization.convention}; HFU also what is computed again.`,
    ...offloadLines(plan, best),
    ...(energy.length > 0 ? [`A step takes ${energy.join(' and ')}.`] : []),
    '',
    ...scriptLines(best.layout, plan.workload, {
      passBytes: memory.kinds.gradients + memory.kinds.activations + memory.kinds.temporaries,
      flopsPerSecond:
        peakFlops(plan.cluster, best.layout.precision) * plan.cluster.efficiency.products,
      pageBytesPerSecond:
        plan.cluster.links.toHost === undefined ? null : hostLink(plan.cluster).bytesPerSecond,
    }),
    '',
  ];
}

function offloadLines(
  { model, workload, cluster }: TrainingPlan,
  best: Prediction,
): readonly string[] {
  const offloaded = offloadedActivations(best, model, workload, cluster);
  if (offloaded === null) return [];
  const { bytes, copySeconds, exposedSeconds } = offloaded;
  return [
    `Recomputation takes ${seconds(best.terms.recompute)} of a step. To offload the same activations is to copy ${amountOfBytes(bytes)} of each microbatch to the host and back:`,
    `${seconds(copySeconds)} of a step, of which computation does not hide ${seconds(exposedSeconds)}.`,
  ];
}

function nothingFits(plan: TrainingPlan): readonly string[] {
  const { smallest, changes } = plan;
  const least =
    smallest === null
      ? ['Nothing fits, and no layout could be tried.']
      : [
          `Nothing fits. The least that a rank needs is ${gigabytesOfNeed(smallest.memory.totalBytes)}: ${layoutText(smallest.layout)}`,
        ];
  const rows = changes.map(({ change, prediction }) => [
    change,
    seconds(prediction.stepSeconds),
    layoutText(prediction.layout),
  ]);
  return [
    ...least,
    '',
    ...(rows.length > 0 ? [textTable([['what makes it fit', 'step', 'layout'], ...rows]), ''] : []),
  ];
}

function prunedLines({ pruned, fitting }: TrainingPlan): readonly string[] {
  const rows = pruned.map(({ reason, count: times, example }) => [String(times), reason, example]);
  return rows.length === 0
    ? []
    : [
        `${fitting} layouts fit. The others:`,
        textTable([['layouts', 'why not', 'such as'], ...rows]),
      ];
}

function throughput({ model, workload }: TrainingPlan, { rowsPerSecond }: Prediction): string {
  const each = model.kind === 'transformer' ? workload.sequence : 1;
  return count(rowsPerSecond * each);
}

function seconds(value: number): string {
  return value >= 1 ? `${value.toPrecision(4)} s` : `${(value * 1000).toPrecision(3)} ms`;
}

function percent(share: number): string {
  return `${(100 * share).toFixed(1)} %`;
}

function gigabytes(bytes: number): string {
  return `${(bytes / 1e9).toFixed(2)} GB`;
}

/** In the unit of its size. */
function amountOfBytes(bytes: number): string {
  return bytes >= 1e9 ? gigabytes(bytes) : `${(bytes / 1e6).toPrecision(3)} MB`;
}

/** Rounded up, because less would not do. */
function gigabytesOfNeed(bytes: number): string {
  return gigabytes(1e7 * Math.ceil(bytes / 1e7));
}

function count(value: number): string {
  const units = ['', ' k', ' M', ' B', ' T'];
  const place = Math.min(
    units.length - 1,
    Math.max(0, Math.floor(Math.log10(Math.max(1, value)) / 3)),
  );
  return `${Number((value / 1000 ** place).toPrecision(4))}${units[place]}`;
}
