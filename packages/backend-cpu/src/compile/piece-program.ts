import type { Dataflow } from './dataflow.ts';
import type { Piece, PieceKind } from './schedule.ts';
import type { Segment, Step } from './step.ts';

/** A piece with the lazy steps that it repeats. */
export interface PieceProgram {
  readonly kind: PieceKind;
  /**
   * Values that lie in memory before the piece runs. For sessions and plain loops, reshapes of such values count too.
   */
  readonly inputs: readonly number[];
  /** The steps in order. Each reads inputs and results of earlier steps. */
  readonly steps: readonly Step[];
  /** Results that other pieces, outputs or updates read. */
  readonly outputs: readonly number[];
}

/**
 * Completes pieces: adds the lazy steps that each piece repeats, the inputs it reads from memory and the outputs it
 * leaves there.
 */
export function piecePrograms(
  segment: Segment,
  pieces: readonly Piece[],
  flow: Dataflow,
): PieceProgram[] {
  const programs = pieces.map((piece) => withLazySteps(piece, flow));
  const roots = (ids: readonly number[]): (number | undefined)[] => ids.map((id) => flow.root(id));
  const read = new Set([
    ...roots(segment.outputs),
    ...roots(segment.updates.map(({ value }) => value)),
    ...roots(programs.flatMap(({ inputs }) => inputs)),
  ]);
  return programs.map((program, index) => {
    const made = pieces[index]?.steps.map(({ output }) => output) ?? [];
    return { ...program, outputs: made.filter((id) => read.has(id)) };
  });
}

function withLazySteps(piece: Piece, flow: Dataflow): Omit<PieceProgram, 'outputs'> {
  const own = new Set(piece.steps.map(({ output }) => output));
  const inputs = new Set<number>();
  const seen = new Set<number>();
  const steps: Step[] = [];

  function visit(id: number): void {
    if (own.has(id) || seen.has(id)) return;
    seen.add(id);
    const lazy = flow.lazy(id);
    const root = flow.root(id);
    const isView = root !== undefined && !own.has(root);
    // Sessions and plain loops take a view as an input. Kernels repeat it, because kernels that write in place must
    // know which input it reads.
    if (lazy === undefined || (isView && (piece.kind === 'onnx' || piece.kind === 'plain'))) {
      inputs.add(id);
      return;
    }
    for (const input of lazy.inputs) visit(input);
    steps.push(lazy);
  }

  for (const step of piece.steps) {
    for (const id of step.inputs) visit(id);
    steps.push(step);
  }
  return { kind: piece.kind, inputs: [...inputs], steps };
}
