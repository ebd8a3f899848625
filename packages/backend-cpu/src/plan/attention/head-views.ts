import type { ValueType } from '@shardwise/core/spec';
import { elementCount } from '@shardwise/core/base';
import {
  inputAt,
  type CpuProgram,
  type CpuInstruction,
  valueAt,
} from '../../program/instruction.ts';
import {
  type AttentionInstruction,
  isAttentionInstruction,
  headInputs,
} from '../../program/attention-instructions.ts';
import {
  permutedView,
  slicedView,
  type View,
  wholeView,
  reshapedView,
} from '../../program/view.ts';
import { readersOf } from '../../program/dataflow.ts';

/** Where the elements of an operand of attention lie in a value in memory. */
export interface HeadView {
  readonly root: number;
  readonly view: View;
}

/**
 * Returns the view that an operand is of the value below its reshapes, permutes and slices. `instructionOf` gives these
 * instructions. Returns undefined if the elements of a row do not lie together.
 */
export function headViewOf(
  id: number,
  values: readonly ValueType[],
  instructionOf: (id: number) => CpuInstruction | undefined,
): HeadView | undefined {
  const { shape } = valueAt(values, id);
  const below = viewOf(id, values, instructionOf);
  const last = below?.view.dims.at(-1);
  return last !== undefined && (last.stride === 1 || shape.at(-1) === 1) ? below : undefined;
}

function viewOf(
  id: number,
  values: readonly ValueType[],
  instructionOf: (id: number) => CpuInstruction | undefined,
): HeadView | undefined {
  const instruction = instructionOf(id);
  const { shape } = valueAt(values, id);
  if (instruction === undefined || !isMovement(instruction))
    return { root: id, view: wholeView(shape) };
  const inner = viewOf(inputAt(instruction, 0), values, instructionOf);
  if (inner === undefined) return undefined;
  const view = movedBy(instruction, inner.view);
  return view && { root: inner.root, view };
}

type Movement = Extract<CpuInstruction, { op: 'reshape' | 'permute' | 'slice' }>;

function isMovement(instruction: CpuInstruction): instruction is Movement {
  if (instruction.op === 'slice') return instruction.params.steps.every((each) => each === 1);
  return instruction.op === 'reshape' || instruction.op === 'permute';
}

function movedBy(instruction: Movement, view: View): View | undefined {
  switch (instruction.op) {
    case 'reshape':
      return reshapedView(view, instruction.shape);
    case 'permute':
      return permutedView(view, instruction.params.order);
    case 'slice':
      return slicedView(view, instruction.params.starts, instruction.shape);
    default:
      return instruction satisfies never;
  }
}

/**
 * The ids of the results of permutes and slices that only attention reads. Attention reads such heads where they lie,
 * and they are not copied. All elements of the value below must be read, because its memory stays in use instead of
 * theirs.
 */
export function headViews(program: CpuProgram): ReadonlySet<number> {
  const attention = program.instructions.filter(isAttentionInstruction);
  if (attention.length === 0) return new Set();
  const producers = new Map(
    program.instructions.map((instruction) => [instruction.output, instruction]),
  );
  const instructionOf = (id: number): CpuInstruction | undefined => producers.get(id);
  const readers = readersOf(program.instructions);
  const found = new Set<number>();
  const given = new Set([...program.outputs, ...program.updates.map(({ value }) => value)]);
  const operands = new Map<number, Set<number>>();
  for (const id of new Set(attention.flatMap(headsOf))) {
    const below = headViewOf(id, program.values, instructionOf);
    if (below === undefined) continue;
    operands.set(below.root, (operands.get(below.root) ?? new Set()).add(id));
  }
  for (const [root, ids] of operands) {
    const sizeOf = (id: number): number => elementCount(valueAt(program.values, id).shape);
    const read = [...ids].reduce((sum, id) => sum + sizeOf(id), 0);
    if (read < sizeOf(root)) continue;
    const moved = new Set([...ids].flatMap((id) => movementsBelow(id, instructionOf)));
    const isAlone = [...moved].every(
      (id) =>
        !given.has(id) &&
        (readers.get(id) ?? []).every((instruction) => reads(instruction, id, moved, ids)),
    );
    if (isAlone) for (const id of moved) found.add(id);
  }
  return found;
}

function headsOf(instruction: AttentionInstruction): readonly number[] {
  return instruction.inputs.slice(0, headInputs[instruction.op]);
}

/** The ids of the results of the movements that a value is made by. */
function movementsBelow(
  id: number,
  instructionOf: (id: number) => CpuInstruction | undefined,
): number[] {
  const instruction = instructionOf(id);
  if (instruction === undefined || !isMovement(instruction)) return [];
  return [id, ...movementsBelow(inputAt(instruction, 0), instructionOf)];
}

/**
 * Whether an instruction that reads the result of a movement is one of these movements, or attention that has it as an
 * operand with heads.
 */
function reads(
  instruction: CpuInstruction,
  id: number,
  moved: ReadonlySet<number>,
  operands: ReadonlySet<number>,
): boolean {
  if (moved.has(instruction.output)) return true;
  const heads = isAttentionInstruction(instruction) ? headInputs[instruction.op] : 0;
  return (
    operands.has(id) && instruction.inputs.every((input, index) => input !== id || index < heads)
  );
}
