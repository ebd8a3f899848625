import type { GatheredGradient } from '../../program/work/attention-work.ts';
import {
  inputAt,
  type CpuProgram,
  type CpuInstruction,
  type InstructionMap,
} from '../../program/instruction.ts';
import {
  permutedView,
  slicedView,
  type View,
  wholeView,
  reshapedView,
} from '../../program/view.ts';
import {
  type AttentionInstruction,
  isAttentionInstruction,
  isForward,
  fusionKey,
} from '../../program/attention-instructions.ts';
import { readersOf } from '../../program/dataflow.ts';

type GradientInstruction = Extract<
  AttentionInstruction,
  { op: 'attentionQueryGrad' | 'attentionKeyGrad' | 'attentionValueGrad' }
>;

/**
 * Lets attention write its gradients directly into their concatenation. This applies if the program does nothing else
 * with the gradients than concatenate all of them and perhaps permute the result. One instruction then makes the
 * permuted value, and nothing is copied.
 */
export function gatherGradients(
  instructions: readonly CpuInstruction[],
  { values, outputs, updates }: Pick<CpuProgram, 'values' | 'outputs' | 'updates'>,
): readonly CpuInstruction[] {
  const gradients = instructions.filter(isGradient);
  if (gradients.length === 0) return instructions;
  const producers = new Map(instructions.map((instruction) => [instruction.output, instruction]));
  const given = new Set([...outputs, ...updates.map(({ value }) => value)]);
  const readers = readersOf(instructions);
  const groups = Map.groupBy(gradients, fusionKey);
  const onlyReader = (id: number): CpuInstruction | undefined => {
    const [reader, ...others] = readers.get(id) ?? [];
    return others.length > 0 || given.has(id) ? undefined : reader;
  };
  const replaced = new Map<number, CpuInstruction>();
  const dropped = new Set<number>();
  for (const concat of instructions) {
    if (concat.op !== 'concat') continue;
    const parts = concat.inputs
      .map((id) => producers.get(id))
      .filter((instruction) => instruction !== undefined);
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
  return instructions.flatMap(
    (instruction) =>
      replaced.get(instruction.output) ?? (dropped.has(instruction.output) ? [] : [instruction]),
  );
}

function isGradient(instruction: CpuInstruction): instruction is GradientInstruction {
  return isAttentionInstruction(instruction) && !isForward(instruction);
}

/**
 * Whether the inputs of a concatenation are all gradients of one attention, each once, and the concatenation is their
 * only reader.
 */
function isAllOfOne(
  parts: readonly CpuInstruction[],
  concat: CpuInstruction,
  groups: ReadonlyMap<string, readonly GradientInstruction[]>,
  onlyReader: (id: number) => CpuInstruction | undefined,
): parts is readonly GradientInstruction[] {
  const [first] = parts;
  if (first === undefined || !isGradient(first)) return false;
  const all = groups.get(fusionKey(first)) ?? [];
  return (
    parts.length === concat.inputs.length &&
    all.length === parts.length &&
    all.every(
      (instruction) => parts.includes(instruction) && onlyReader(instruction.output) === concat,
    )
  );
}

type Movement = InstructionMap['permute'] | InstructionMap['reshape'];

/**
 * The permutes of a value and the reshapes between them, up to the last permute. Each is the only reader of the one
 * before.
 */
function movementsAbove(
  from: CpuInstruction,
  onlyReader: (id: number) => CpuInstruction | undefined,
): readonly Movement[] {
  const found: Movement[] = [];
  for (
    let instruction = onlyReader(from.output);
    instruction !== undefined;
    instruction = onlyReader(instruction.output)
  ) {
    if (instruction.op !== 'permute' && instruction.op !== 'reshape') break;
    found.push(instruction);
  }
  return found.slice(0, found.findLastIndex(({ op }) => op === 'permute') + 1);
}

/** The view of the value `from` in the memory of the result of the last movement. */
function viewBelow(
  movements: readonly Movement[],
  from: CpuInstruction,
  values: CpuProgram['values'],
): View | undefined {
  const top = movements.at(-1) ?? from;
  let view: View | undefined = wholeView(top.shape);
  for (const instruction of movements.toReversed()) {
    const { shape } = values[inputAt(instruction, 0)] ?? from;
    if (view === undefined) return undefined;
    if (instruction.op === 'reshape') view = reshapedView(view, shape);
    else {
      const { order } = instruction.params;
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
  { params: { dim } }: InstructionMap['concat'],
  parts: readonly GradientInstruction[],
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
