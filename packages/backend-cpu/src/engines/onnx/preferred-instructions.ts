import type { ValueType } from '@shardwise/core/spec';
import type { Dataflow } from '../../program/dataflow.ts';
import { elementCount } from '@shardwise/core/base';
import { valueAt, type CpuInstruction } from '../../program/instruction.ts';
import { isFusable } from '../../kernels/handles.ts';
import { onnxComputes } from '../../emit/onnx/lower/lowerings.ts';
import { isNarrowProduct } from '../../program/product-instructions.ts';
import type { InstructionKind } from '../../program/partition.ts';
import { isNarrowing } from '../../program/half-casts.ts';

/**
 * Returns the kinds of the instructions, in program order. More instructions become 'onnx': those that ONNX Runtime
 * computes better, and those between instructions that it computes anyway.
 */
export function withPreferredInstructions(
  own: ReadonlyMap<CpuInstruction, InstructionKind>,
  values: readonly ValueType[],
  flow: Dataflow,
): ReadonlyMap<CpuInstruction, InstructionKind> {
  const kinds = new Map(own);
  const nextReader = new Map<number, CpuInstruction>();
  for (const instruction of [...kinds.keys()].toReversed()) {
    const reader = nextReader.get(instruction.output);
    const isBeforeOnnx = reader !== undefined && kinds.get(reader) === 'onnx';
    const isFree =
      kinds.get(instruction) === 'kernel' && onnxComputes(instruction, inputsOf(instruction));
    const gains = isBeforeOnnx
      ? isFree && gainsFromOnnx(instruction)
      : narrowsProduct(instruction, reader);
    if (gains) kinds.set(instruction, 'onnx');
    if (gains && reader === undefined)
      makersOf(instruction).forEach((maker) => kinds.set(maker, 'onnx'));
    for (const source of flow.sources(instruction)) nextReader.set(source, instruction);
  }
  return kinds;

  /**
   * Whether an instruction rounds the result of f32 products to 16 bits, and nothing reads it, as with gradients. The
   * session that also runs the products frees their f32 values when it is done.
   */
  function narrowsProduct(
    instruction: CpuInstruction,
    reader: CpuInstruction | undefined,
  ): boolean {
    if (reader !== undefined || !isNarrowing(instruction, values)) return false;
    const makers = makersOf(instruction);
    const isWide = (maker: CpuInstruction): boolean =>
      maker.op === 'matmul' && !isNarrowProduct(maker, values);
    return makers.length > 0 && makers.every(isWide);
  }

  function makersOf(instruction: CpuInstruction): CpuInstruction[] {
    return [...flow.sources(instruction)].flatMap((id) => flow.producer(id) ?? []);
  }

  /**
   * Whether an instruction before an ONNX instruction should be one too. ONNX Runtime's softmax has wider vectors. An
   * elementwise instruction between products has no other instruction to share a loop with, and as a kernel it would
   * change the kind of partition twice.
   */
  function gainsFromOnnx(instruction: CpuInstruction): boolean {
    if (instruction.op === 'softmax') return true;
    if (!isFusable(instruction, inputsOf(instruction)) || isWorseInOnnx(instruction)) return false;
    const sources = [...flow.sources(instruction)].filter(
      (id) => sizeOf(id) === elementCount(instruction.shape),
    );
    const makers = sources.flatMap((id) => flow.producer(id) ?? []);
    return makers.length > 0 && makers.every((maker) => kinds.get(maker) === 'onnx');
  }

  function inputsOf(instruction: CpuInstruction): ValueType[] {
    return instruction.inputs.map((id) => valueAt(values, id));
  }

  function sizeOf(id: number): number {
    return elementCount(valueAt(values, id).shape);
  }
}

/**
 * Whether the kernels compute an instruction better than ONNX Runtime. Its tanh, which gelu's approximation uses, has
 * fewer correct digits. Its sigmoid would be four nodes.
 */
function isWorseInOnnx(instruction: CpuInstruction): boolean {
  if (instruction.op === 'gelu') return instruction.params.approximate === 'tanh';
  return instruction.op === 'sigmoid' || instruction.op === 'tanh';
}
