import type { Program } from '@shardwise/core/spec';
import { OnnxPiece } from '../onnx/onnx-piece.ts';
import type { Sessions } from '../onnx/sessions.ts';
import { compileKernels } from '../wasm/compile-kernels.ts';
import { Dataflow } from './dataflow.ts';
import { CpuExecutable, signatureOf, type Host } from './executable.ts';
import { kernelSupport } from './kernel-support.ts';
import { describePiece, onnxModel } from './onnx-model.ts';
import { cutPieces } from './cut-pieces.ts';
import { piecePrograms, type PieceProgram } from './piece-program.ts';
import { simplify } from './simplify.ts';
import type { CompiledPiece } from './compiled-piece.ts';
import type { Segment } from './step.ts';
import { assignStorage, inPlaceUpdates } from './storage.ts';
import { storedValues } from './stored-values.ts';

interface Compiled {
  readonly piece: CompiledPiece;
  /** Values that its kernels need memory for. */
  readonly storage: readonly number[];
}

/** Compiles a program to sessions and kernels, in dependency order. */
export async function compile(
  program: Program,
  host: Host,
  sessions: Sessions,
): Promise<CpuExecutable> {
  const segment = simplify(program);
  const flow = new Dataflow(segment, storedValues(segment, kernelSupport));
  const pieces = piecePrograms(segment, cutPieces(segment, flow, kernelSupport), flow);
  const inPlace = inPlaceUpdates(segment, pieces, flow);
  const compiled: Compiled[] = [];
  try {
    for (const piece of pieces) {
      compiled.push(compilePiece(segment, piece, inPlace, host, sessions));
    }
  } catch (error) {
    for (const { piece } of compiled) await piece.dispose?.();
    throw error;
  }
  const kernelStorage = compiled.map(({ storage }) => storage);
  const storage = assignStorage(program, segment, pieces, kernelStorage, flow, inPlace);
  const compiledPieces = compiled.map(({ piece }) => piece);
  return new CpuExecutable(host, signatureOf(program), compiledPieces, storage);
}

function compilePiece(
  segment: Segment,
  piece: PieceProgram,
  inPlace: ReadonlyMap<number, number>,
  host: Host,
  sessions: Sessions,
): Compiled {
  const { memory } = host.arena;
  if (piece.kind === 'kernel') {
    const made = new Set(piece.outputs);
    const kernels = compileKernels(memory, {
      values: segment.values,
      inputCount: segment.inputCount,
      instructions: piece.steps,
      outputs: piece.outputs,
      inPlace: new Map([...inPlace].filter(([value]) => made.has(value))),
    });
    return { piece: kernels, storage: kernels.storage };
  }
  const describe = (): string => describePiece(piece);
  const lease = sessions.acquire(onnxModel(segment, piece), describe);
  return { piece: new OnnxPiece(memory, segment.values, piece, lease, describe), storage: [] };
}
