import type { ValueType } from '@shardwise/core/spec';
import { readersOf } from '../../program/readers-of.ts';
import {
  elementCount,
  inputAt,
  type Segment,
  type Step,
  valueAt,
} from '../../program/instruction.ts';
import {
  type AttentionStep,
  isAttentionStep,
  headInputs,
} from '../../program/attention-instructions.ts';
import {
  permutedView,
  slicedView,
  type View,
  wholeView,
  reshapedView,
} from '../../program/view.ts';

/** Where the elements of an operand of attention lie in a value in memory. */
export interface HeadView {
  readonly root: number;
  readonly view: View;
}

/**
 * Returns the view that an operand is of the value below its reshapes, permutes and slices. `stepOf` gives these steps.
 * Returns undefined if the elements of a row do not lie together.
 */
export function headViewOf(
  id: number,
  values: readonly ValueType[],
  stepOf: (id: number) => Step | undefined,
): HeadView | undefined {
  const { shape } = valueAt(values, id);
  const below = viewOf(id, values, stepOf);
  const last = below?.view.dims.at(-1);
  return last !== undefined && (last.stride === 1 || shape.at(-1) === 1) ? below : undefined;
}

function viewOf(
  id: number,
  values: readonly ValueType[],
  stepOf: (id: number) => Step | undefined,
): HeadView | undefined {
  const step = stepOf(id);
  const { shape } = valueAt(values, id);
  if (step === undefined || !isMovement(step)) return { root: id, view: wholeView(shape) };
  const inner = viewOf(inputAt(step, 0), values, stepOf);
  if (inner === undefined) return undefined;
  const view = movedBy(step, inner.view);
  return view && { root: inner.root, view };
}

type Movement = Extract<Step, { op: 'reshape' | 'permute' | 'slice' }>;

function isMovement(step: Step): step is Movement {
  if (step.op === 'slice') return step.params.steps.every((each) => each === 1);
  return step.op === 'reshape' || step.op === 'permute';
}

function movedBy(step: Movement, view: View): View | undefined {
  switch (step.op) {
    case 'reshape':
      return reshapedView(view, step.shape);
    case 'permute':
      return permutedView(view, step.params.order);
    case 'slice':
      return slicedView(view, step.params.starts, step.shape);
    default:
      return step satisfies never;
  }
}

/**
 * The ids of the results of permutes and slices that only attention reads. Attention reads such heads where they lie,
 * and they are not copied. All elements of the value below must be read, because its memory stays in use instead of
 * theirs.
 */
export function headViews(segment: Segment): ReadonlySet<number> {
  const attention = segment.steps.filter(isAttentionStep);
  if (attention.length === 0) return new Set();
  const producers = new Map(segment.steps.map((step) => [step.output, step]));
  const stepOf = (id: number): Step | undefined => producers.get(id);
  const readers = readersOf(segment.steps);
  const found = new Set<number>();
  const given = new Set([...segment.outputs, ...segment.updates.map(({ value }) => value)]);
  const operands = new Map<number, Set<number>>();
  for (const id of new Set(attention.flatMap(headsOf))) {
    const below = headViewOf(id, segment.values, stepOf);
    if (below === undefined) continue;
    operands.set(below.root, (operands.get(below.root) ?? new Set()).add(id));
  }
  for (const [root, ids] of operands) {
    const sizeOf = (id: number): number => elementCount(valueAt(segment.values, id).shape);
    const read = [...ids].reduce((sum, id) => sum + sizeOf(id), 0);
    if (read < sizeOf(root)) continue;
    const moved = new Set([...ids].flatMap((id) => movementsBelow(id, stepOf)));
    const isAlone = [...moved].every(
      (id) =>
        !given.has(id) && (readers.get(id) ?? []).every((step) => reads(step, id, moved, ids)),
    );
    if (isAlone) for (const id of moved) found.add(id);
  }
  return found;
}

function headsOf(step: AttentionStep): readonly number[] {
  return step.inputs.slice(0, headInputs[step.op]);
}

/** The ids of the results of the movements that a value is made by. */
function movementsBelow(id: number, stepOf: (id: number) => Step | undefined): number[] {
  const step = stepOf(id);
  if (step === undefined || !isMovement(step)) return [];
  return [id, ...movementsBelow(inputAt(step, 0), stepOf)];
}

/**
 * Whether a step that reads the result of a movement is one of these movements, or attention that has it as an operand
 * with heads.
 */
function reads(
  step: Step,
  id: number,
  moved: ReadonlySet<number>,
  operands: ReadonlySet<number>,
): boolean {
  if (moved.has(step.output)) return true;
  const heads = isAttentionStep(step) ? headInputs[step.op] : 0;
  return operands.has(id) && step.inputs.every((input, index) => input !== id || index < heads);
}
