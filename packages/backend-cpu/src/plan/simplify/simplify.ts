import type { Program, Shape, ValueType } from '@shardwise/core/spec';
import { withoutEmptyInputs } from './empty-inputs.ts';
import { fuseProducts } from './fuse-products.ts';
import { joinPads } from './join-pads.ts';
import type { OwnProducts } from '../products/product-of.ts';
import { elementCount } from '@shardwise/core/base';
import {
  inputAt,
  sameShape,
  valueAt,
  type CpuProgram,
  type CpuInstruction,
} from '../../program/instruction.ts';
import type { Rewriter, Uses } from '../../program/rewriter.ts';
import { splitSum, splitCast } from './split-instructions.ts';
import { narrowOperands, narrowResult, widenResult, roundAgain } from './narrow-products.ts';

/**
 * Turns a program into the instructions that must run. It removes dead code, values of size 0 and transposes of matmul
 * operands. It joins the gradients of slices, and splits sums and conversions into those that kernels have. Matmuls
 * take over scales and biases, and movements that only rename dims become a `reshape`. `own` says which products there
 * is machine code for.
 */
export function simplify(program: Program, own: OwnProducts | null): CpuProgram {
  const attention = own?.attention ?? null;
  const inputCount = program.inputs.length;
  const values: ValueType[] = [
    ...program.inputs,
    ...program.instructions.map(({ shape, dtype }) => ({ shape, dtype })),
  ];
  const producers = new Map<number, CpuInstruction>();
  const rewriter: Rewriter = {
    values,
    producer: (id) => producers.get(id),
    append: (make) => {
      const instruction = make(values.length);
      values.push({ shape: instruction.shape, dtype: instruction.dtype });
      producers.set(instruction.output, instruction);
      return instruction.output;
    },
  };
  const uses = countUses(program);
  const given = new Set(program.outputs);
  for (const [index, instruction] of program.instructions.entries()) {
    const output = inputCount + index;
    if (elementCount(instruction.shape) === 0) continue;
    const whole = joinPads(withoutEmptyInputs({ ...instruction, output }, values), rewriter);
    const rounded = roundAgain(whole, inputCount, rewriter);
    const operands = own?.bf16 === true ? narrowOperands(rounded, rewriter) : rounded;
    const narrow =
      own?.bf16 === true && attention ? attention.narrow(operands, rewriter) : operands;
    const stored = attention?.readStored(narrow, rewriter) ?? narrow;
    const plain = absorbTransposes(asReshape(stored, values), producers);
    const made = splitCast(splitSum(plain, rewriter), rewriter);
    const fused = fuseProducts(made, uses, rewriter);
    const attended = attention?.narrowResult(fused, uses, rewriter) ?? fused;
    const rounding = narrowResult(attended, uses, rewriter);
    producers.set(output, widenResult(rounding, uses, given, rewriter));
  }
  const outputs = program.outputs.filter((id) => elementCount(valueAt(values, id).shape) > 0);
  const updates = program.updates.filter(
    ({ target }) => elementCount(valueAt(values, target).shape) > 0,
  );
  const needed = reachable(producers, [...outputs, ...updates.map(({ value }) => value)]);
  const live = [...producers.values()].filter((instruction) => needed.has(instruction.output));
  const arranged = attention?.withLogSums(live) ?? live;
  const instructions = attention?.gathered(arranged, { values, outputs, updates }) ?? arranged;
  return { values, inputCount, instructions, outputs, updates };
}

function countUses({ instructions, outputs, updates }: Program): Uses {
  const uses = new Map<number, number>();
  const read = [
    ...instructions.flatMap(({ inputs }) => inputs),
    ...outputs,
    ...updates.map(({ value }) => value),
  ];
  for (const id of read) uses.set(id, (uses.get(id) ?? 0) + 1);
  return uses;
}

function reachable(
  producers: ReadonlyMap<number, CpuInstruction>,
  from: readonly number[],
): Set<number> {
  const seen = new Set<number>();
  const pending = [...from];
  for (let id = pending.pop(); id !== undefined; id = pending.pop()) {
    if (seen.has(id)) continue;
    seen.add(id);
    pending.push(...(producers.get(id)?.inputs ?? []));
  }
  return seen;
}

/** Replaces an instruction that keeps all elements and their order with a reshape. */
function asReshape(instruction: CpuInstruction, values: readonly ValueType[]): CpuInstruction {
  const [input] = instruction.inputs;
  if (input === undefined) return instruction;
  const source = valueAt(values, input);
  if (!keepsElements(instruction, source)) return instruction;
  const { shape, dtype, output } = instruction;
  return { op: 'reshape', params: { shape }, inputs: [input], shape, dtype, output };
}

function keepsElements(instruction: CpuInstruction, source: ValueType): boolean {
  switch (instruction.op) {
    case 'permute':
      return ascends(instruction.params.order.filter((dim) => source.shape[dim] !== 1));
    case 'expand':
    case 'slice':
    case 'pad':
      return sameShape(instruction.shape, source.shape);
    case 'concat':
      return instruction.inputs.length === 1;
    case 'sum':
    case 'max':
      return instruction.params.dims.every((dim) => source.shape[dim] === 1);
    case 'cast':
      return instruction.dtype === source.dtype;
    default:
      return false;
  }
}

function ascends(dims: readonly number[]): boolean {
  return dims.every((dim, index) => index === 0 || dim > (dims[index - 1] ?? -1));
}

/** Lets a matmul read the value below a permute of the last two dims, and flips the operand's transpose flag. */
function absorbTransposes(
  instruction: CpuInstruction,
  producers: ReadonlyMap<number, CpuInstruction>,
): CpuInstruction {
  if (instruction.op !== 'matmul') return instruction;
  const a = untransposed(inputAt(instruction, 0), producers);
  const b = untransposed(inputAt(instruction, 1), producers);
  const params = {
    transposeA: instruction.params.transposeA !== a.transposed,
    transposeB: instruction.params.transposeB !== b.transposed,
  };
  return { ...instruction, params, inputs: [a.id, b.id] };
}

function untransposed(
  id: number,
  producers: ReadonlyMap<number, CpuInstruction>,
): { id: number; transposed: boolean } {
  const producer = producers.get(id);
  if (producer?.op !== 'permute' || !swapsLastTwo(producer.params.order)) {
    return { id, transposed: false };
  }
  return { id: inputAt(producer, 0), transposed: true };
}

function swapsLastTwo(order: Shape): boolean {
  const rank = order.length;
  if (rank < 2) return false;
  const swapped = [...order.keys()].with(rank - 2, rank - 1).with(rank - 1, rank - 2);
  return sameShape(order, swapped);
}
