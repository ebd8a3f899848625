import type { Program } from '@shardwise/core/spec';
import { planKernels } from '../kernels/plan-kernels.ts';
import type { AnalysedPartition } from './analysed-partition.ts';
import { partitionProgram } from './partition/partition.ts';
import { resultsOf } from '../program/work/attention-work.ts';
import { isAttentionInstruction, isPagedInstruction } from '../program/attention-instructions.ts';
import type { Dataflow } from '../program/dataflow.ts';
import { withEpilogues } from './epilogues.ts';
import { kernelSupport } from './partition/kernel-support.ts';
import { type OwnProducts, productOf } from './products/product-of.ts';
import { groupedProductOf } from './products/grouped-product-of.ts';
import { isGroupedInstruction } from '../program/product-instructions.ts';
import { completePartitions } from './partition/complete-partitions.ts';
import type { FallbackEngine } from './partition/fallback-engine.ts';
import { simplify } from './simplify/simplify.ts';
import { byteLengthOf, type CpuProgram, valueAt } from '../program/instruction.ts';
import { overwritesOf } from './overwrites.ts';
import { inPlaceUpdates, planStorage, type StoragePlan } from './storage.ts';
import { dataflowOf } from './partition/dataflow-of.ts';
import type { CompletePartition } from '../program/partition.ts';

/** The byte lengths of the inputs and outputs of a program. */
export interface Signature {
  readonly inputs: readonly number[];
  readonly outputs: readonly number[];
}

/** How a program is run, as plain data. Only numbers in it depend on the program's sizes. */
export interface Analysis {
  readonly signature: Signature;
  readonly partitions: readonly AnalysedPartition[];
  /** For each partition, the instructions of the program that it computes. Epilogues count where they were planned. */
  readonly parts: readonly (readonly number[])[];
  readonly storage: StoragePlan;
}

/**
 * Cuts a program into partitions, and decides where its values lie. `own` says which products our own code computes.
 */
export function analyse(
  source: Program,
  own: OwnProducts | null,
  fallback: FallbackEngine,
): Analysis {
  const support = kernelSupport(own, fallback);
  const program = simplify(source, own);
  const heads = own?.attention?.headViews(program);
  const flow = dataflowOf(program, support, heads);
  const partitions = completePartitions(program, partitionProgram(program, flow, support), flow);
  const inPlace = inPlaceUpdates(program, partitions, flow);
  const analysed = withEpilogues(
    partitions.map((partition) =>
      analysePartition(program, partition, inPlace, flow, own, fallback),
    ),
  );
  const kernelStorage = analysed.map(storageOf);
  const updated = new Set(inPlace.keys());
  const needs = {
    kernelStorage,
    keptRows: new Map(analysed.flatMap(keptRowsOf)),
    overwrites: overwritesOf(program, partitions, analysed, kernelStorage, flow, updated),
  };
  return {
    signature: signatureOf(source),
    partitions: analysed,
    parts: partitions.map(({ instructions }) =>
      instructions.map(({ output }) => output - program.inputCount),
    ),
    storage: planStorage(source, program, partitions, needs, flow, inPlace),
  };
}

function analysePartition(
  program: CpuProgram,
  partition: CompletePartition,
  inPlace: ReadonlyMap<number, number>,
  flow: Dataflow,
  own: OwnProducts | null,
  fallback: FallbackEngine,
): AnalysedPartition {
  if (partition.kind === 'product') {
    const attention = partition.instructions.filter(isAttentionInstruction);
    if (own?.attention && attention.length > 0) {
      const work = own.attention.workOf(attention, program.values, flow, own.bf16);
      return { kind: 'attention', work };
    }
    const instruction = partition.instructions.at(-1);
    if (own?.attention && instruction !== undefined && isPagedInstruction(instruction)) {
      return { kind: 'attention', work: own.attention.pagedWorkOf(instruction, program, flow) };
    }
    if (instruction !== undefined && isGroupedInstruction(instruction)) {
      return { kind: 'grouped', product: groupedProductOf(instruction, program.values, flow) };
    }
    const product = instruction && productOf(instruction, program.values, flow, own);
    if (product === undefined) throw new RangeError('the partition ends with no product of ours');
    return { kind: 'product', product, epilogue: [] };
  }
  if (partition.kind === 'kernel') {
    const made = new Set(partition.outputs);
    const plan = planKernels({
      values: program.values,
      inputCount: program.inputCount,
      instructions: partition.instructions,
      outputs: partition.outputs,
      inPlace: new Map([...inPlace].filter(([value]) => made.has(value))),
    });
    return { kind: 'kernel', plan };
  }
  return fallback.plan(program, partition);
}

/** The values that a partition needs memory for, even if nothing outside the partition reads them. */
function storageOf(partition: AnalysedPartition): readonly number[] {
  if (partition.kind === 'kernel') return partition.plan.storage;
  if (partition.kind === 'attention') return resultsOf(partition.work);
  if (partition.kind === 'product') {
    const made = partition.epilogue.flatMap(({ reads = [], values }) => values.slice(reads.length));
    return [partition.product.result, ...made];
  }
  return partition.kind === 'grouped' ? [partition.product.result] : [];
}

function keptRowsOf(
  partition: AnalysedPartition,
): readonly (readonly [id: number, bytes: number])[] {
  return partition.kind === 'kernel' ? [...partition.plan.keptRows] : [];
}

function signatureOf(program: Program): Signature {
  const values = [...program.inputs, ...program.instructions];
  return {
    inputs: program.inputs.map(byteLengthOf),
    outputs: program.outputs.map((id) => byteLengthOf(valueAt(values, id))),
  };
}
