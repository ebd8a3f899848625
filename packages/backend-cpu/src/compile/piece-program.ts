import type { Dataflow } from './dataflow.ts';
import type { Piece, PieceKind } from './schedule.ts';
import type { Segment, Step } from './step.ts';

/** A piece with the lazy steps that it repeats. */
export interface PieceProgram {
  readonly kind: PieceKind;
  /** Values that lie in memory before; for sessions and plain loops, reshapes of what lies there count as such. */
  readonly inputs: readonly number[];
  /** The steps, each of which reads inputs and results of earlier ones. */
  readonly steps: readonly Step[];
  /** Results that others read. */
  readonly outputs: readonly number[];
}

/** Completes pieces: each learns what it reads from and leaves in memory. */
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
    // Kernels that write in place must see through a view which input they read.
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
