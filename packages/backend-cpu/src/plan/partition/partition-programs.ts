import type { Dataflow } from '../../program/dataflow.ts';
import type { Segment, Step } from '../../program/instruction.ts';
import type { Piece, PieceProgram } from '../../program/partition.ts';

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
