import type { Program } from '@shardwise/core/spec';
import { planKernels } from '../kernels/plan-kernels.ts';
import type { AnalysedPiece } from './analysed-partition.ts';
import { cutPieces } from './partition/partition.ts';
import { resultsOf } from '../program/work/attention-work.ts';
import { isAttentionStep } from '../program/attention-instructions.ts';
import type { Dataflow } from '../program/dataflow.ts';
import { withEpilogues } from './epilogues.ts';
import { kernelSupport } from './partition/kernel-support.ts';
import { type OwnProducts, productOf } from './products/product-of.ts';
import { groupedProductOf } from './products/grouped-product-of.ts';
import { isGroupedStep } from '../program/product-instructions.ts';
import { piecePrograms } from './partition/partition-programs.ts';
import type { Rest } from './partition/fallback-engine.ts';
import { simplify } from './simplify/simplify.ts';
import { byteLengthOf, type Segment, valueAt } from '../program/instruction.ts';
import { inPlaceUpdates, planStorage, type StoragePlan } from './storage.ts';
import { dataflowOf } from './partition/dataflow-of.ts';
import type { PieceProgram } from '../program/partition.ts';

/** The byte lengths of the inputs and outputs of a program. */
export interface Signature {
  readonly inputs: readonly number[];
  readonly outputs: readonly number[];
}

/** How a program is run, as plain data. Only numbers in it depend on the program's sizes. */
export interface Analysis {
  readonly signature: Signature;
  readonly pieces: readonly AnalysedPiece[];
  readonly storage: StoragePlan;
}

/** Cuts a program into pieces, and decides where its values lie. `own` says which products our own code computes. */
export function analyse(program: Program, own: OwnProducts | null, rest: Rest): Analysis {
  const support = kernelSupport(own, rest);
  const segment = simplify(program, own);
  const heads = own?.attention?.headViews(segment);
  const flow = dataflowOf(segment, support, heads);
  const programs = piecePrograms(segment, cutPieces(segment, flow, support), flow);
  const inPlace = inPlaceUpdates(segment, programs, flow);
  const pieces = withEpilogues(
    programs.map((piece) => analysePiece(segment, piece, inPlace, flow, own, rest)),
  );
  const kernelStorage = pieces.map(storageOf);
  return {
    signature: signatureOf(program),
    pieces,
    storage: planStorage(program, segment, programs, kernelStorage, flow, inPlace),
  };
}

function analysePiece(
  segment: Segment,
  piece: PieceProgram,
  inPlace: ReadonlyMap<number, number>,
  flow: Dataflow,
  own: OwnProducts | null,
  rest: Rest,
): AnalysedPiece {
  if (piece.kind === 'product') {
    const attention = piece.steps.filter(isAttentionStep);
    if (own?.attention && attention.length > 0) {
      const work = own.attention.workOf(attention, segment.values, flow, own.bf16);
      return { kind: 'attention', work };
    }
    const step = piece.steps.at(-1);
    if (step !== undefined && isGroupedStep(step)) {
      return { kind: 'grouped', product: groupedProductOf(step, segment.values, flow) };
    }
    const product = step && productOf(step, segment.values, flow, own);
    if (product === undefined) throw new RangeError('the piece ends with no product of ours');
    return { kind: 'product', product, epilogue: [] };
  }
  if (piece.kind === 'kernel') {
    const made = new Set(piece.outputs);
    const plan = planKernels({
      values: segment.values,
      inputCount: segment.inputCount,
      instructions: piece.steps,
      outputs: piece.outputs,
      inPlace: new Map([...inPlace].filter(([value]) => made.has(value))),
    });
    return { kind: 'kernel', plan };
  }
  return rest.plan(segment, piece);
}

/** The values that a piece needs memory for, even if nothing outside the piece reads them. */
function storageOf(piece: AnalysedPiece): readonly number[] {
  if (piece.kind === 'kernel') return piece.plan.storage;
  if (piece.kind === 'attention') return resultsOf(piece.work);
  if (piece.kind === 'product') {
    const made = piece.epilogue.flatMap(({ reads = [], values }) => values.slice(reads.length));
    return [piece.product.result, ...made];
  }
  return piece.kind === 'grouped' ? [piece.product.result] : [];
}

function signatureOf(program: Program): Signature {
  const values = [...program.inputs, ...program.instructions];
  return {
    inputs: program.inputs.map(byteLengthOf),
    outputs: program.outputs.map((id) => byteLengthOf(valueAt(values, id))),
  };
}
