import type { GatheredGradient } from '../../program/work/attention-work.ts';
import { readersOf } from '../../program/readers-of.ts';
import { inputAt, type Segment, type Step, type StepMap } from '../../program/instruction.ts';
import {
  permutedView,
  slicedView,
  type View,
  wholeView,
  reshapedView,
} from '../../program/view.ts';
import {
  type AttentionStep,
  isAttentionStep,
  isForward,
  fusionKey,
} from '../../program/attention-instructions.ts';

type GradientStep = Extract<
  AttentionStep,
  { op: 'attentionQueryGrad' | 'attentionKeyGrad' | 'attentionValueGrad' }
>;

/**
 * Lets attention write its gradients directly into their concatenation. This applies if the program does nothing else
 * with the gradients than concatenate all of them and perhaps permute the result. One step then makes the permuted
 * value, and nothing is copied.
 */
export function gatherGradients(
  steps: readonly Step[],
  { values, outputs, updates }: Pick<Segment, 'values' | 'outputs' | 'updates'>,
): readonly Step[] {
  const gradients = steps.filter(isGradient);
  if (gradients.length === 0) return steps;
  const producers = new Map(steps.map((step) => [step.output, step]));
  const given = new Set([...outputs, ...updates.map(({ value }) => value)]);
  const readers = readersOf(steps);
  const groups = Map.groupBy(gradients, fusionKey);
  const onlyReader = (id: number): Step | undefined => {
    const [reader, ...others] = readers.get(id) ?? [];
    return others.length > 0 || given.has(id) ? undefined : reader;
  };
  const replaced = new Map<number, Step>();
  const dropped = new Set<number>();
  for (const concat of steps) {
    if (concat.op !== 'concat') continue;
    const parts = concat.inputs.map((id) => producers.get(id)).filter((step) => step !== undefined);
    if (!isAllOfOne(parts, concat, groups, onlyReader)) continue;
    const above = movementsAbove(concat, onlyReader);
    const top = above.at(-1) ?? concat;
    const view = viewBelow(above, concat, values);
    const gathered = view && partsOf(view, concat, parts);
    const [first] = parts;
    if (gathered === undefined || first === undefined) continue;
    const { shape, dtype, output } = top;
    const params = { ...first.params, gathered };
    replaced.set(output, {
      op: 'attentionQueryGrad',
      params,
      inputs: first.inputs,
      shape,
      dtype,
      output,
    });
    for (const { output: id } of [...parts, concat, ...above]) dropped.add(id);
  }
  return steps.flatMap(
    (step) => replaced.get(step.output) ?? (dropped.has(step.output) ? [] : [step]),
  );
}

function isGradient(step: Step): step is GradientStep {
  return isAttentionStep(step) && !isForward(step);
}

/**
 * Whether the inputs of a concatenation are all gradients of one attention, each once, and the concatenation is their
 * only reader.
 */
function isAllOfOne(
  parts: readonly Step[],
  concat: Step,
  groups: ReadonlyMap<string, readonly GradientStep[]>,
  onlyReader: (id: number) => Step | undefined,
): parts is readonly GradientStep[] {
  const [first] = parts;
  if (first === undefined || !isGradient(first)) return false;
  const all = groups.get(fusionKey(first)) ?? [];
  return (
    parts.length === concat.inputs.length &&
    all.length === parts.length &&
    all.every((step) => parts.includes(step) && onlyReader(step.output) === concat)
  );
}

type Movement = StepMap['permute'] | StepMap['reshape'];

/**
 * The permutes of a value and the reshapes between them, up to the last permute. Each is the only reader of the one
 * before.
 */
function movementsAbove(
  from: Step,
  onlyReader: (id: number) => Step | undefined,
): readonly Movement[] {
  const found: Movement[] = [];
  for (let step = onlyReader(from.output); step !== undefined; step = onlyReader(step.output)) {
    if (step.op !== 'permute' && step.op !== 'reshape') break;
    found.push(step);
  }
  return found.slice(0, found.findLastIndex(({ op }) => op === 'permute') + 1);
}

/** The view of the value `from` in the memory of the result of the last movement. */
function viewBelow(
  movements: readonly Movement[],
  from: Step,
  values: Segment['values'],
): View | undefined {
  const top = movements.at(-1) ?? from;
  let view: View | undefined = wholeView(top.shape);
  for (const step of movements.toReversed()) {
    const { shape } = values[inputAt(step, 0)] ?? from;
    if (view === undefined) return undefined;
    if (step.op === 'reshape') view = reshapedView(view, shape);
    else {
      const { order } = step.params;
      view = permutedView(
        view,
        shape.map((_, dim) => order.indexOf(dim)),
      );
    }
  }
  return view;
}

/**
 * Where each part of a concatenation lies, if the concatenation lies as in `view`. Undefined if the elements of a row
 * do not lie together.
 */
function partsOf(
  view: View,
  { params: { dim } }: StepMap['concat'],
  parts: readonly GradientStep[],
): readonly GatheredGradient[] | undefined {
  if (view.dims.at(-1)?.stride !== 1) return undefined;
  let start = 0;
  return parts.map(({ op, shape }) => {
    const { elementOffset, dims } = slicedView(view, shape.map(() => 0).with(dim, start), shape);
    start += shape[dim] ?? 0;
    const [item, head, row] = dims;
    return {
      op,
      elementOffset,
      itemStride: item?.stride ?? 0,
      headStride: head?.stride ?? 0,
      rowStride: row?.stride ?? 0,
    };
  });
}
